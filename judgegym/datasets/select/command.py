"""`judgegym select SCORED --out FILE`: from the command line to the exit code.

Exit codes: 0 done; 2 something to mend, said in one message: nothing that could be selected is one, too; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.engine.terminal.output import offline_notice, say, warn
from judgegym.judges.config.exit_code import exit_code

ALL_COLUMNS = "all"
"""In place of names: all columns of the scored file."""

if TYPE_CHECKING:
    from judgegym.datasets.files.writer import ScoredRow
    from judgegym.datasets.select.card import CardFacts
    from judgegym.datasets.select.options import SelectOptions


def parser_of(prog: str) -> argparse.ArgumentParser:
    """The flags of the command."""
    from judgegym.datasets.select.options import parser_of as flags_of  # late: the others load much more

    return flags_of(prog)


def main(argv: Sequence[str], *, prog: str) -> int:
    """Run the command.

    Args:
        argv: its words.
        prog: what the user typed to start it.

    Returns:
        The exit code.
    """
    parser = parser_of(prog)

    def command() -> int:
        from judgegym.datasets.select.options import options_of

        return _run(options_of(parser.parse_args(argv)), list(argv))

    return exit_code(command)


def _run(options: SelectOptions, words: Sequence[str]) -> int:
    from judgegym.datasets.select.card import card  # late, as all below: errors of flags come at once
    from judgegym.datasets.select.writing import Repository

    _check_places(options)
    repository = None
    if options.repository is not None:
        repository = Repository.open(options.repository, options.out.name, private=options.private)
    facts = _select(options, words)
    _say(facts)
    if options.card is not None:
        _write_card(options.card, card(facts))
        if repository is not None:
            warn(f"pushed to {repository.push(options.out, options.card, private=options.private)}")
    return 0


def _check_places(options: SelectOptions) -> None:
    """Check what can be checked before anything is read.

    Raises:
        SettingsError: an extra is missing, or a file that is there is not to be overwritten.
    """
    from judgegym.datasets.files.columns import is_parquet
    from judgegym.datasets.select.card import check_card, check_is_replaceable
    from judgegym.datasets.select.options import CARD
    from judgegym.judges.config.extras import require
    from judgegym.llm.errors import SettingsError

    require("environments")
    if is_parquet(options.out) or is_parquet(options.scored):
        require("data")
    if options.out.exists() and options.scored.exists() and options.out.samefile(options.scored):
        raise SettingsError(f"--out: expected another file than the scored one, found {options.out}")
    if options.card is not None:
        check_card(options.card, options.out)
    check_is_replaceable(options.out, options.card or options.out.parent / CARD)


def _select(options: SelectOptions, words: Sequence[str]) -> CardFacts:
    """Read, select and write.

    Raises:
        DataError: a row cannot be read, or not be written in the layout.
        SettingsError: nothing can be selected.
    """
    from judgegym.datasets.files.columns import is_parquet
    from judgegym.datasets.select.candidates import ScoredTexts
    from judgegym.datasets.select.card import CardFacts
    from judgegym.datasets.select.layouts import LAYOUTS, Rows, scores_of
    from judgegym.datasets.select.origin import Origin
    from judgegym.datasets.select.selection import score_deciles, select
    from judgegym.datasets.select.writing import each_labelled, picked, write_rows
    from judgegym.llm.errors import SettingsError

    origin = Origin.of(options.scored)
    texts = ScoredTexts(options.scored, origin.columns(options.columns), keep_thinking=options.keep_thinking)
    seen = _RowCounter()
    candidates = texts.candidates(seen.add)
    selection = select(candidates, options.rule, options.seed)
    if not len(selection):
        raise SettingsError(f"nothing can be selected, so {options.out} is not written; {_left(selection.prompts)}")
    layout = LAYOUTS[options.layout]
    rows = Rows(
        layout,
        conversational=options.conversational,
        data_source=options.data_source,
        kept=_kept(options, list(texts.rows[0].row.values)),
        scores=scores_of(layout) if options.keep_scores else (),
        is_table=is_parquet(options.out),
    )
    content = picked(texts, candidates, selection, options.rule)
    return CardFacts(
        options=options,
        origin=origin,
        selection=selection,
        rows=len(texts.rows),
        written=write_rows(options.out, rows, each_labelled(content) if options.both_labelled else content),
        sampled=texts.sampled,
        statuses=seen.statuses,
        deciles=score_deciles(candidates),
        orders_agree=seen.orders_agree,
        again=words,
    )


def _kept(options: SelectOptions, columns: Sequence[str]) -> list[str]:
    """The columns of the scored file that are written beside those of the layout.

    Raises:
        SettingsError: one is not there, or has the name of a column that the command writes.
    """
    from judgegym.datasets.select.layouts import LAYOUTS, scores_of
    from judgegym.llm.errors import SettingsError

    layout = LAYOUTS[options.layout]
    written = {*layout.columns, *(scores_of(layout) if options.keep_scores else ())}
    if options.kept == (ALL_COLUMNS,):
        return [name for name in columns if name not in written]
    for name in options.kept:
        if name not in columns:
            raise SettingsError(f"--keep_columns: there is no column {name} in {options.scored}")
        if name in written:
            raise SettingsError(f"--keep_columns: {name} is a column that select writes itself; leave it out")
    return list(options.kept)


class _RowCounter:
    """Counts what a card says of all rows."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self._agreed, self._compared = 0.0, 0

    def add(self, row: ScoredRow) -> None:
        """Count a row."""
        self.statuses.update(row.status)
        for number, detail in enumerate(row.detail):
            if detail is not None and "orders_agree" in detail:
                found = row.components(number)
                share = found.get("orders_agree") if isinstance(found, dict) else None
                if isinstance(share, float | int):
                    self._agreed, self._compared = self._agreed + share, self._compared + 1

    @property
    def orders_agree(self) -> float | None:
        """The mean share of the pairs on which two orders of the answers agree; `None` if it is not known."""
        return self._agreed / self._compared if self._compared else None


def _write_card(path: Path, text: str) -> None:
    from judgegym.engine.runs.disk import write_atomic
    from judgegym.llm.errors import UserError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    warn(f"wrote {path}")


def _say(facts: CardFacts) -> None:
    """Say what was written, and what was left out."""
    from judgegym.datasets.select.selection import SELECTED

    selection, options = facts.selection, facts.options
    responses, prompts = selection.responses, selection.prompts
    say(
        f"{facts.written:,} rows (layout {options.layout}) are in {options.out}\n"
        f"selected: {responses[SELECTED]:,} of {responses.total():,} responses, "
        f"to {prompts[SELECTED]:,} of {prompts.total():,} prompts"
    )
    for what, counts in (("responses", responses), ("prompts", prompts)):
        left = [(f"{count:,}", name, words) for count, name, words in _reasons(counts)]
        if left:
            say(f"{what} left out")
            number, reason = (max(len(row[place]) for row in left) for place in (0, 1))
            for count, name, words in left:
                say(f"  {count:>{number}}  {name:<{reason}}  {words}".rstrip())
    before, after = selection.lengths
    if before.share is not None:
        say("length of the chosen response, beside the rejected one")
        for when, lengths in (("all pairs", before), ("selected", after)):
            say(f"  {when:<9}  {lengths.words}")
    doubt = facts.origin.not_comparable(options.rule)
    if doubt is not None:
        warn(doubt)
    if facts.origin.stand_ins:
        warn(offline_notice(facts.origin.stand_ins))


def _reasons(counts: Counter[str]) -> list[tuple[int, str, str]]:
    """How many are left out, the reason, and what it means; the most frequent first."""
    from judgegym.datasets.select.rules import REASONS
    from judgegym.datasets.select.selection import SELECTED

    return [(count, name, REASONS.get(name, "")) for name, count in counts.most_common() if count and name != SELECTED]


def _left(counts: Counter[str]) -> str:
    return "; ".join(f"{count:,} {name}" + (f" ({words})" if words else "") for count, name, words in _reasons(counts))
