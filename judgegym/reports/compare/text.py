"""A comparison on the terminal."""

from __future__ import annotations

import textwrap

from judgegym.engine.terminal import Table, console, say, show_table
from judgegym.engine.terminal.output import printable
from judgegym.reports.compare import words
from judgegym.reports.compare.comparison import Comparison, Difference

_INDENT = "   "


def show(comparison: Comparison) -> None:
    """Print a comparison."""
    say(words.title(comparison))
    for run in comparison.runs:
        say(f"{run.letter}  {printable(run.path)}")
        _lines(_INDENT, printable(words.about(run)), words.left_out(comparison, run))
    say("")
    show_table(_runs(comparison))
    for each in comparison.differences:
        _difference(comparison, each)
    if comparison.gold is not None:
        gold = comparison.gold
        say("")
        _lines("", words.gold_title(comparison, gold))
        show_table(Table(title="", header=words.GOLD_HEADER, rows=tuple(words.gold_rows(gold))))
        _lines(_INDENT, *(f"{each.letter}: {words.tested(comparison, each.test)}" for each in gold.differences))
    say("")
    for differing in comparison.differing:
        _lines(
            "",
            printable(
                f"The {differing.condition} differs: {differing.name}: A {differing.reference}; "
                f"{differing.letter} {differing.run}"
            ),
        )
    _lines("", *map(printable, comparison.notes), words.method(comparison))


def _runs(comparison: Comparison) -> Table:
    reference, *others = comparison.runs
    first = (reference.letter, words.number(reference.headline), words.interval_of(reference.interval))
    return Table(
        title="",
        header=("run", comparison.words, "95 %", "difference", "95 %"),
        rows=(
            (*first, "", ""),
            *(
                (
                    run.letter,
                    words.number(run.headline),
                    words.interval_of(run.interval),
                    words.signed(each.difference.value),
                    words.signed_interval(each.difference),
                )
                for run, each in zip(others, comparison.differences, strict=True)
            ),
        ),
    )


def _difference(comparison: Comparison, difference: Difference) -> None:
    say("")
    _lines("", words.headline(comparison, difference))
    _lines(_INDENT, words.counts(comparison, difference), words.flips(difference))
    _lines(_INDENT, *(words.tested(comparison, test) for test in difference.tests))
    if difference.agreement is not None:
        _lines(_INDENT, *words.agreement(comparison, difference.agreement))
    _lines(_INDENT, words.needed(comparison, difference))
    if difference.categories:
        show_table(_categories(comparison, difference))
    if difference.changed:
        say(f"{_INDENT}changed most:")
    for row in difference.changed:
        line = f"{_INDENT}{words.number(row.before)} → {words.number(row.after)}  {row.uid}  {row.start}"
        say(_cut(printable(line)))


def _categories(comparison: Comparison, difference: Difference) -> Table:
    return Table(
        title="",
        header=("category", f"{comparison.item}s", "A", difference.letter, "difference", "95 %"),
        rows=tuple(
            (
                printable(each.name) if each.name is not None else words.NO_CATEGORY,
                f"{each.rows:,}",
                words.number(each.reference),
                words.number(each.run),
                words.signed(each.difference.value),
                words.signed_interval(each.difference),
            )
            for each in difference.categories
        ),
    )


def _lines(indent: str, *texts: str) -> None:
    """Print each text that is not empty, wrapped at the width of the terminal."""
    for text in texts:
        if text:
            say(textwrap.fill(text, console().width, initial_indent=indent, subsequent_indent=indent + "  "))


def _cut(line: str) -> str:
    """The line as long as the terminal is wide; whole where there is none."""
    out = console()
    return line if not out.is_terminal or len(line) <= out.width else f"{line[: out.width - 1]}…"
