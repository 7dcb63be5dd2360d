"""Write the data set card of a selection: a README.md in the format of the Hugging Face hub.

Source, read on 2026-11-22: huggingface_hub 2.4.0 (`huggingface_hub/repocard_data.py`,
`DatasetCardData`) and the hub's page on data set cards (hf.co/docs/hub/datasets-cards): a head of
YAML with `task_categories`, `size_categories`, `tags` and `configs`, and a body of Markdown.

Guarantees: the card states only what is known: licence and languages are left out. It holds no key
and no text of the data. A README.md of somebody else, or of another file, is never overwritten.

Guarantee for foreign texts in Markdown (names of files, settings, models): such a text is shown as
it is, and cannot end its section: it makes no heading, table, link, HTML or head of YAML. Control
characters and those that change the writing direction are shown as U+FFFD.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judgegym.datasets.select.candidates import ScoredTexts
from judgegym.datasets.select.layouts import LAYOUTS, reader_settings
from judgegym.datasets.select.options import CARD, SelectOptions
from judgegym.datasets.select.origin import Origin
from judgegym.datasets.select.selection import REASONS, SELECTED, Selection
from judgegym.engine.terminal.output import offline_notice, printable
from judgegym.judges.config.exit_code import remove_control_characters
from judgegym.judges.config.extras import package_version
from judgegym.judges.config.presets import load_yaml
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.statistics import percent

_TICKS = re.compile(r"`+")


def format_code(text: str) -> str:
    """Format a text as inline code, on one line."""
    shown = printable(" ".join(text.split())) or " "
    fence = "`" * (_longest_backticks(shown) + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"


def format_block(lines: Iterable[str]) -> str:
    """Format lines of a shell as a code block."""
    text = remove_control_characters("\n".join(lines))
    fence = "`" * max(3, _longest_backticks(text) + 1)
    return f"{fence}sh\n{text}\n{fence}"


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table; the first column holds names, the others are right-aligned."""
    line = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(_table_line(row) for row in (header, line, *rows))


def _table_line(cells: Sequence[str]) -> str:
    columns = " | ".join(cell.replace("|", "\\|") for cell in cells)
    return f"| {columns} |"


def _longest_backticks(text: str) -> int:
    return max((len(ticks) for ticks in _TICKS.findall(text)), default=0)


MARK = (
    "<!-- Written by judgegym select, which overwrites it when it is run again for the same file. "
    "-->"
)
_HEAD = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_SIZES = (
    *((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K")),
    *((1_000_000, "100K<n<1M"), (10_000_000, "1M<n<10M")),
)
_WIDEST_BAR = 20


@dataclass(frozen=True, slots=True)
class CardFacts:
    """The contents of a card.

    Attributes:
        options: the command's options.
        origin: how the scored file was made.
        texts: the scored file.
        selection: the selected responses, and why others are left out.
        written: the number of rows that were written.
        tenths: the counts of scores in each tenth of the scale, by its bounds.
        command_words: the words after `judgegym select`.
    """

    options: SelectOptions
    origin: Origin
    texts: ScoredTexts
    selection: Selection
    written: int
    tenths: Sequence[tuple[str, int]]
    command_words: Sequence[str]


def check_targets(options: SelectOptions) -> None:
    """Check that existing files may be overwritten: they must be this command's, for this file.

    Raises:
        SettingsError: a file may be somebody else's.
    """
    out, path = options.out, options.card_path
    text = None if path is None else _read_text(path)
    why = None if text is None else explain_foreign_card(text, out.name)
    if why is not None:
        raise SettingsError(
            f"{path} {why}, and is not overwritten; write into a folder of its own, or name "
            "another file with --card (none: no card)"
        )
    path = path or out.parent / CARD
    if out.exists() and (
        (text := _read_text(path)) is None or explain_foreign_card(text, out.name) is not None
    ):
        raise SettingsError(
            f"--out: {out} exists, and no card ({path}) says that judgegym select has written it, "
            "so it is not overwritten; name another file, or remove this one"
        )


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"--card: {path} cannot be read: {error.strerror}") from error


def explain_foreign_card(text: str, name: str) -> str | None:
    """Explain why a card is not that of the file with this name; `None` if it is."""
    if MARK not in text:
        return "was not written by judgegym select"
    match = _HEAD.match(text)
    try:
        head = load_yaml(match[1]) if match else None
    except ValueError:
        head = None
    configs = [
        {"config_name": "default", "data_files": [{"split": "train", "path": _encode_name(name)}]}
    ]
    is_its_card = isinstance(head, Mapping) and head.get("configs") == configs
    if is_its_card:
        return None
    return "is the card of another file"


def make_card(facts: CardFacts) -> str:
    """Return the whole card."""
    lines = "\n".join(_head_lines(facts))
    return f"---\n{lines}\n---\n{MARK}\n\n" + "\n\n".join(_body_sections(facts)) + "\n"


def _head_lines(facts: CardFacts) -> Iterator[str]:
    """Yield the lines of the YAML head; foreign texts are JSON strings, which are valid YAML."""
    yield from ("task_categories:", "- text-generation", "tags:")
    yield from (f"- {tag}" for tag in _list_tags(facts))
    size = next((name for most, name in _SIZES if facts.written < most), "10M<n<100M")
    yield from ("size_categories:", f"- {size}")
    yield from ("configs:", "- config_name: default", "  data_files:", "  - split: train")
    path = wire.dumps(_encode_name(facts.options.out.name)).decode()
    yield f"    path: {path}"


def _encode_name(name: str) -> str:
    """Return a file's name, which need not be UTF-8, as text."""
    return name.encode("utf-8", "replace").decode()


def _list_tags(facts: CardFacts) -> list[str]:
    trainer, _, kind = facts.options.layout.partition("-")
    kind, origin = kind.partition("-")[0], facts.origin
    further = {
        "preference": kind == "dpo",
        "best-of-n": facts.options.rule.take == "best",
        "synthetic": facts.texts.is_sampled,
        "llm-as-a-judge": origin.text("judge") is not None and not origin.offline,
    }
    return ["judgegym", trainer, kind, *(tag for tag, applies in further.items() if applies)]


def _body_sections(facts: CardFacts) -> Iterator[str]:
    options, origin = facts.options, facts.origin
    yield f"# {format_code(options.out.name)}"
    kind = "messages" if options.conversational else "texts"
    reads = reader_settings(options.layout, conversational=options.conversational)
    layout = format_code(options.layout)
    version = format_code(package_version())
    reading = ""
    if reads:
        reading = f" Read it with {format_code(reads)}."
    yield (
        f"{facts.written:,} rows for {LAYOUTS[options.layout].about} (layout {layout}, {kind}), "
        f"selected with JudgeGym {version} by a judge's scores.{reading} Licence and languages "
        "are those of the data that was judged; this card does not know them."
    )
    if origin.stand_ins:
        yield f"**{offline_notice(origin.stand_ins)}**"
    yield "## The judge"
    if origin.settings:
        yield format_table(("", ""), _judge_rows(facts))
    else:
        yield "How the scores were made is not known."
    doubt = origin.scores_warning(options.rule)
    if doubt is not None:
        yield f"**{doubt}**"
    yield "## What was selected"
    yield format_table(("responses", "number"), _count_rows(facts.selection.responses))
    yield format_table(("prompts", "number"), _count_rows(facts.selection.prompts))
    for when, lengths in zip(("all pairs", "selected"), facts.selection.lengths, strict=True):
        if lengths.longer_share is not None:
            title = f"Length of the chosen response, beside the rejected one ({when})"
            yield f"{title}: {lengths.description}."
    yield "## The scores of all responses"
    yield format_table(
        ("status", "responses"),
        ((format_code(name), f"{count:,}") for name, count in sorted(facts.texts.statuses.items())),
    )
    yield format_table(("score", "responses", ""), _distribution_rows(facts.tenths))
    yield "## Make it again"
    score = origin.command(options.scored)
    select_command = ["judgegym", "select", *facts.command_words]
    yield format_block(
        [
            *([shlex.join(["judgegym", "score", *score])] if score else []),
            shlex.join(select_command),
        ]
    )


def _judge_rows(facts: CardFacts) -> Iterator[tuple[str, str]]:
    origin = facts.origin
    models = {"judge": origin.text("judge")}
    if not origin.offline:
        models["model"] = origin.text("judge_model_name")
        if origin.asks_policy:
            models["policy, which wrote the responses"] = origin.text("openai.model_name")
    yield from ((name, format_code(model)) for name, model in models.items() if model is not None)
    data = origin.text("data")
    if data is not None:
        digest = "" if origin.data_digest is None else f", {format_code(origin.data_digest)}"
        row_count = len(facts.texts.rows)
        yield "data", f"{format_code(data)}, {row_count:,} rows{digest}"
    for name, prompt_digest in origin.prompt_digests().items():
        yield f"digest of the prompt ({format_code(name)})", format_code(prompt_digest)
    for name, value in origin.protocol().items():
        text = value if isinstance(value, str) else wire.dumps(value).decode()
        yield f"setting {format_code(name)}", format_code(text)
    if orders := facts.texts.orders:
        share = percent(sum(orders) / len(orders))
        yield "the same verdict in both orders of the answers", f"{share} of the pairs"
    for who in ("judge", "policy"):
        sent, received, cost = (
            origin.metric(f"{who}_{quantity}")
            for quantity in ("prompt_tokens", "completion_tokens", "cost_usd")
        )
        if sent is not None and received is not None:
            yield f"tokens of the {who}", f"{sent:,} sent, {received:,} received"
        if cost is not None:
            yield f"cost of the {who}", f"{cost:.2f} US dollars"


def _count_rows(counts: Counter[str]) -> Iterator[tuple[str, str]]:
    yield "all", f"{counts.total():,}"
    yield "selected", f"{counts[SELECTED]:,}"
    for reason, count in sorted(counts.items()):
        if reason != SELECTED:
            meaning = REASONS.get(reason) or format_code(reason)
            yield f"left out: {meaning}", f"{count:,}"


def _distribution_rows(tenths: Sequence[tuple[str, int]]) -> Iterator[tuple[str, str, str]]:
    highest = max(count for _, count in tenths)
    for bounds, count in tenths:
        yield bounds, f"{count:,}", "█" * round(_WIDEST_BAR * count / highest)
