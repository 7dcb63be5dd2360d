"""Whether the tests notice when the code is wrong: a seeded sample of mutants of the packages.

A mutant is one small change at one place (`operators`). It is put into a scratch copy of the tree,
where pytest runs
until the first failure (`runner`): the tests of the module (`selection`), then those that `--tests`
names. A failing test kills a mutant, and so does taking longer than `--timeout` in all; it survives
if all tests pass. Tests that fail
without a mutant would kill every one: `--check` runs the chosen tests once on the unchanged tree,
and stops if one fails.

    python -m benchmarks.mutation [--checkout PATH] [--seed 0] [--count 50] [--jobs 1] [--tests PATH
    …] [--out FILE]
"""
