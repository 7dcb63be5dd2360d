"""The flags of `judgegym select`, checked and completed."""

from __future__ import annotations

import argparse
from pathlib import Path

from judgegym.datasets.files.columns import has_known_ending
from judgegym.datasets.select.layouts import LAYOUTS
from judgegym.datasets.select.selection import Rule
from judgegym.judges.config.one_line_parser import (
    OneLineParser,
    make_whole_number_type,
    parse_share,
)
from judgegym.llm.errors import SettingsError

_DESCRIPTION = """Take the best responses of a scored data set, or pairs of them, and write them
as a trainer reads them. Responses without a score are never taken; they, ties and prompts with
fewer than two scored responses are counted by reason. A card (README.md) beside FILE says how it
was made."""
_PAIR_FLAGS = ("margin", "pairs_per_prompt", "max_pairs", "length_balanced")
CARD = "README.md"


class SelectOptions(argparse.Namespace):
    """The options of the command.

    Attributes:
        scored: the scored file.
        out: the file to write.
        rule: what is taken of each prompt.
        seed: the seed of random choices.
        layout: a name of `LAYOUTS`.
        conversational: write messages, not texts.
        keep_thinking: write the thinking of sampled responses, too.
        data_source: the `data_source` of verl's RL rows.
        kept_columns: columns of the scored file that are written, too; `all` alone for all of them.
        keep_scores: write the scores, too.
        prompt_column: the column of prompts, if named; likewise `response_column` and
            `group_by`.
        card_path: where the card is written; `None` for none.
        push_to_hub: the repository of the hub to push to.
        private: make a new repository private.
    """

    scored: Path
    out: Path
    rule: Rule
    seed: int
    layout: str
    conversational: bool
    keep_thinking: bool
    data_source: str
    kept_columns: tuple[str, ...]
    keep_scores: bool
    prompt_column: str | None
    response_column: str | None
    group_by: str | None
    card_path: Path | None
    push_to_hub: str | None
    private: bool

    @property
    def both_labelled(self) -> bool:
        """Whether both responses of a pair become rows with a label."""
        return self.rule.take == "pairs" and LAYOUTS[self.layout].takes == "labels"


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser of the command's flags."""
    parser = OneLineParser(prog, _DESCRIPTION)
    add = parser.add_argument
    add(
        "scored",
        type=Path,
        metavar="SCORED",
        help="file that judgegym score has written, .parquet or .jsonl",
    )
    add(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="write this file, .parquet or .jsonl",
    )
    _add_rules(parser)
    layouts = "; ".join(f"{name}: for {layout.about}" for name, layout in LAYOUTS.items())
    add(
        "--layout",
        choices=LAYOUTS,
        metavar="NAME",
        help=f"the columns of FILE. {layouts} (default: trl-dpo with --pairs, else trl-sft)",
    )
    add(
        "--conversational",
        type=_parse_boolean,
        default=True,
        metavar="true|false",
        help="write prompts and responses as messages; false: as texts (default: true)",
    )
    add(
        "--keep_thinking",
        action="store_true",
        help="put the thinking of sampled responses before them, in <think>",
    )
    add(
        "--keep_columns",
        metavar="COLUMNS",
        help="write these columns of SCORED, too, separated by commas, or all; of a pair, those "
        "of the chosen response (in Parquet as text)",
    )
    add(
        "--keep_scores",
        action="store_true",
        help="write the score of each response, too: score; of pairs score_chosen, score_rejected "
        "and margin",
    )
    add(
        "--data_source",
        metavar="NAME",
        help="with --layout verl-rl: its data_source (default: judgegym)",
    )
    add(
        "--prompt_column", metavar="COLUMN", help="column of the prompt (default: as it was judged)"
    )
    add(
        "--response_column",
        metavar="COLUMN",
        help="column of the response, or a list (default: as it was judged)",
    )
    add(
        "--group_by",
        metavar="COLUMN",
        help="rows with the same value are one prompt's (default: as it was judged)",
    )
    add(
        "--seed",
        type=make_whole_number_type(0),
        default=0,
        metavar="N",
        help="seed of what is drawn (default: %(default)s)",
    )
    add(
        "--card",
        metavar="PATH",
        help="write the card there; none: write no card (default: README.md beside FILE)",
    )
    add(
        "--push_to_hub",
        metavar="REPO",
        help="push FILE and the card to this data set of the Hugging Face hub",
    )
    add("--private", action="store_true", help="with --push_to_hub: make a new repository private")
    return parser


def _add_rules(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_mutually_exclusive_group(required=True)
    kinds.add_argument(
        "--best", action="store_true", help="take the best response to each prompt; ties are drawn"
    )
    kinds.add_argument(
        "--top",
        type=make_whole_number_type(1),
        metavar="K",
        help="take the K best responses to each prompt",
    )
    kinds.add_argument(
        "--threshold",
        type=parse_share,
        metavar="X",
        help="take all responses with a score of at least X",
    )
    kinds.add_argument(
        "--pairs",
        action="store_true",
        help="take pairs: a chosen and a rejected response to a prompt",
    )
    add = parser.add_argument
    add(
        "--min_score",
        type=parse_share,
        metavar="X",
        help="with --best, --top, --pairs: none (none chosen) below X",
    )
    add(
        "--margin",
        type=parse_share,
        metavar="M",
        help="with --pairs: the least difference of the scores (default: any)",
    )
    add(
        "--pairs_per_prompt",
        choices=["one", "all"],
        help="with --pairs: the best response against the worst, or all pairs (default: one)",
    )
    add(
        "--max_pairs",
        type=make_whole_number_type(1),
        metavar="N",
        help="with --pairs: draw at most N pairs of all",
    )
    add(
        "--length_balanced",
        action="store_true",
        help="with --pairs: take the rejected response that is nearest in length, and as many "
        "pairs with the longer chosen as with the shorter",
    )


def complete_flags(flags: SelectOptions) -> None:
    """Check the flags, and set the options that follow from them.

    Raises:
        SettingsError: the flags do not fit together.
    """
    for name, path in (("SCORED", flags.scored), ("--out", flags.out)):
        if not has_known_ending(path):
            raise SettingsError(
                f"{name}: expected a file with the ending .parquet or .jsonl, found {path}"
            )
    if flags.private and flags.push_to_hub is None:
        raise SettingsError(
            "--private: it makes a repository of the hub private; it needs --push_to_hub"
        )
    flags.layout = flags.layout or ("trl-dpo" if flags.pairs else "trl-sft")
    _check_layout(flags.layout, flags)
    flags.rule = _make_rule(flags)
    flags.data_source = flags.data_source or "judgegym"
    flags.kept_columns = tuple(
        name.strip() for name in (flags.keep_columns or "").split(",") if name.strip()
    )
    flags.card_path = None if flags.card == "none" else Path(flags.card or flags.out.parent / CARD)
    if flags.card_path is None and flags.push_to_hub is not None:
        raise SettingsError("--card=none: a data set is pushed to the hub with its card")
    if flags.card_path == flags.out:
        raise SettingsError(f"--card: expected another file than --out, found {flags.out}")


def _check_layout(name: str, flags: argparse.Namespace) -> None:
    layout = LAYOUTS[name]
    expected = {
        "responses": (not flags.pairs, "--best, --top or --threshold"),
        "pairs": (flags.pairs, "--pairs"),
        "prompts": (flags.best, "--best: a row is a prompt, whose best response is the reference"),
        "labels": (
            flags.threshold is not None or (flags.pairs and flags.pairs_per_prompt != "all"),
            "--threshold, or --pairs with one pair of each prompt: a response has one label",
        ),
    }
    is_right, needs = expected[layout.takes]
    if not is_right:
        raise SettingsError(f"--layout={name}: expected {needs}")
    if flags.out.suffix.lower() not in layout.endings:
        endings = " or ".join(layout.endings)
        raise SettingsError(f"--layout={name}: {layout.about} reads {endings}, found {flags.out}")
    if flags.data_source is not None and layout.takes != "prompts":
        raise SettingsError("--data_source: nothing reads it without --layout=verl-rl")
    if not flags.conversational and not layout.can_hold_texts:
        raise SettingsError(
            f"--layout={name}: {layout.about} reads messages; leave out --conversational=false"
        )


def _make_rule(flags: argparse.Namespace) -> Rule:
    for name in _PAIR_FLAGS:
        value = getattr(flags, name)
        if value is not None and value is not False and not flags.pairs:
            raise SettingsError(f"--{name}: it is about pairs; it needs --pairs")
    if flags.threshold is not None:
        if flags.min_score is not None:
            raise SettingsError("--min_score: --threshold is the least score already")
        is_labelled = LAYOUTS[flags.layout].takes == "labels"
        return Rule("labels" if is_labelled else "threshold", min_score=flags.threshold)
    if not flags.pairs:
        return Rule(count=flags.top or 1, min_score=flags.min_score)
    return Rule(
        "pairs",
        min_score=flags.min_score,
        margin=flags.margin or 0.0,
        per_prompt=flags.pairs_per_prompt or "one",
        length_balanced=flags.length_balanced,
        max_pairs=flags.max_pairs,
    )


def _parse_boolean(word: str) -> bool:
    if word.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"expected true or false, found {word}")
    return word.lower() == "true"
