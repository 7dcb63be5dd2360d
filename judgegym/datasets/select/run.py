"""Run `judgegym select`: read, select, write the file and its card, and push them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from judgegym.datasets.files.columns import is_parquet
from judgegym.datasets.score.numbers import count_tenths
from judgegym.datasets.select.candidates import ScoredTexts
from judgegym.datasets.select.card import CardFacts, check_targets, make_card
from judgegym.datasets.select.layouts import ALL_COLUMNS, RowFormatter
from judgegym.datasets.select.options import SelectOptions
from judgegym.datasets.select.origin import Origin
from judgegym.datasets.select.selection import REASONS, SELECTED, select
from judgegym.datasets.select.writing import (
    iter_output_rows,
    open_repository,
    push,
    replace_file,
    write_rows,
)
from judgegym.engine.terminal.output import offline_notice, say, warn
from judgegym.judges.config.extras import require
from judgegym.llm.errors import SettingsError


def run(options: SelectOptions, words: Sequence[str]) -> int:
    """Select by the options, and return the exit code; `words` are those of the command.

    Raises:
        DataError: a row cannot be read, or cannot be written in the layout.
        SettingsError: an extra is missing, nothing can be selected, or an existing file must not
            be overwritten.
        UserError: a file cannot be written, or the hub refuses it.
    """
    require("environments")
    if is_parquet(options.out) or is_parquet(options.scored):
        require("data")
    if options.out.exists() and options.scored.exists() and options.out.samefile(options.scored):
        raise SettingsError(
            f"--out: expected another file than the scored one, found {options.out}"
        )
    check_targets(options)
    api, name = None, options.push_to_hub
    if name is not None:
        api = open_repository(name, options.out.name, private=options.private)
    facts = _select(options, words)
    _print_selection(facts)
    if options.card_path is not None:
        replace_file(options.card_path, make_card(facts).encode("utf-8", "replace"))
        warn(f"wrote {options.card_path}")
        if name is not None:
            address = push(api, name, options.out, options.card_path, private=options.private)
            warn(f"pushed to {address}")
    return 0


def _select(options: SelectOptions, words: Sequence[str]) -> CardFacts:
    """Read, select and write."""
    origin = Origin.read(options.scored)
    texts = ScoredTexts(
        options.scored, origin.columns(options), keep_thinking=options.keep_thinking
    )
    groups = texts.groups()
    selection = select(groups, options.rule, options.seed)
    if not len(selection):
        left = "; ".join(
            f"{count:,} {name}" + (f" ({words})" if words else "")
            for count, name, words in _count_reasons(selection.prompts)
        )
        raise SettingsError(f"nothing can be selected, so {options.out} is not written; {left}")
    rows = RowFormatter(options, list(texts.columns))
    write_rows(options.out, rows, iter_output_rows(texts, selection, options))
    written = len(selection) * (1 + options.both_labelled)
    candidates = chain.from_iterable(group.candidates for group in groups)
    scores = [candidate.score for candidate in candidates if candidate.score is not None]
    return CardFacts(options, origin, texts, selection, written, count_tenths(scores), words)


def _print_selection(facts: CardFacts) -> None:
    """Print what was written, and what was left out."""
    selection, options = facts.selection, facts.options
    responses, prompts = selection.responses, selection.prompts
    say(
        f"{facts.written:,} rows (layout {options.layout}) are in {options.out}\n"
        f"selected: {responses[SELECTED]:,} of {responses.total():,} responses, "
        f"to {prompts[SELECTED]:,} of {prompts.total():,} prompts"
    )
    for kind, counts in (("responses", responses), ("prompts", prompts)):
        left = [(f"{count:,}", name, words) for count, name, words in _count_reasons(counts)]
        if left:
            say(f"{kind} left out")
            number, reason = (max(len(row[column]) for row in left) for column in (0, 1))
            for count, name, words in left:
                say(f"  {count:>{number}}  {name:<{reason}}  {words}".rstrip())
    before, after = selection.lengths
    if before.longer_share is not None:
        say("length of the chosen response, beside the rejected one")
        for when, lengths in (("all pairs", before), ("selected", after)):
            say(f"  {when:<9}  {lengths.description}")
    doubt = facts.origin.scores_warning(options.rule)
    if doubt is not None:
        warn(doubt)
    if facts.texts.has_tools and not {"tools", ALL_COLUMNS} & {*options.kept_columns}:
        hint = "; --keep_columns tools writes them" if "tools" in facts.texts.columns else ""
        warn(f"The tools that prompts offer are not written{hint}.")
    if facts.origin.stand_ins:
        warn(offline_notice(facts.origin.stand_ins))


def _count_reasons(counts: Counter[str]) -> list[tuple[int, str, str]]:
    """Return the counts of what is left out, each with its reason and its meaning, by frequency."""
    reasons = [name_count for name_count in counts.most_common() if name_count[0] != SELECTED]
    return [(count, name, REASONS.get(name, "")) for name, count in reasons if count]
