"""JudgeGym in other trainers and evaluation frameworks: one module for each, over the same core.

Guarantees: importing a module loads its framework's package and no other framework's; a judge's
failure becomes what that framework understands as "no reward", or a flagged number where it has no
such notion. `docs/trainers/` has a table of all frameworks.
"""
