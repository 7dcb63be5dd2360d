"""`judgegym judge show|check|export|import FILE`: judges as files, with their evidence."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from judgegym.judges.config.exit_code import exit_code
from judgegym.judges.config.one_line_parser import OneLineParser
from judgegym.llm.errors import SettingsError

if TYPE_CHECKING:  # --help comes at once
    from judgegym.cli.judge_cards.imports import FieldNames
    from judgegym.judges.prompt_files.card import JudgeCard

_STALE = 4
_ABOUT = (
    "show: print a judge's file and the evidence on it. check: the same in one line for each thing "
    "that is wrong or out of date. export: print it as JSON, with its digest. import: write a card "
    "from another tool's judge, and list what could not be carried."
)


def main(argv: Sequence[str], *, prog: str) -> int:
    """Run the command.

    Args:
        argv: the command's arguments.
        prog: what the user typed to start it.

    Returns:
        The exit code: 0; 2 for a file that cannot be used; 4 if `check` finds evidence of another
        prompt or model.
    """
    parser = make_parser(prog)
    options = parser.parse_args(argv)
    if options.action != "import":
        for name in ("out", "format", "field"):
            if getattr(options, name):
                parser.error(f"--{name} belongs to import, not to {options.action}")
    actions: Mapping[str, Callable[[argparse.Namespace], int]] = {
        "show": _show,
        "check": _check,
        "export": _export,
        "import": _import,
    }
    return exit_code(lambda: actions[options.action](options))


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = OneLineParser(prog, _ABOUT)
    actions = ("show", "check", "export", "import")
    listed = ", ".join(actions)
    parser.add_argument("action", choices=actions, metavar="ACTION", help=f"one of {listed}")
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a card or a prompt file; of import, any format"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="CARD",
        help="import: the card (default: FILE's name with .yaml)",
    )
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="import: FILE's format, if it cannot be recognised: openai, rewardkit, verifiers, "
        "verifiers_prompt, autorubric, rubric_rows or inspect",
    )
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="COLUMN=PLACEHOLDER",
        help="import: a column of the foreign rows, and what it is here, such as answer=reference",
    )
    return parser


def _load(path: Path) -> JudgeCard:
    """Load a card whose settings a judge can be made of.

    Raises:
        SettingsError: it is invalid.
    """
    from judgegym.judges.prompt_files.card import load_card
    from judgegym.judges.scorers.cards import open_card

    try:
        card = load_card(path)
        open_card(path)
    except (ValueError, SettingsError) as error:
        text = str(error)
        raise SettingsError(text if text.startswith(str(path)) else f"{path}: {text}") from None
    return card


def _show(options: argparse.Namespace) -> int:
    from judgegym.engine import terminal
    from judgegym.judges.scorers.registry import DEFAULT_KIND

    card = _load(options.file)
    kind = card.section.get("kind", DEFAULT_KIND)
    terminal.say(f"judge     {kind}, model {card.model or 'of the command'}")
    terminal.say(f"digest    {card.digest}")
    if card.imported is not None:
        terminal.say(f"imported  {card.imported.format} {card.imported.name}".rstrip())
        for note in card.imported.differs:
            terminal.say(f"differs   {note}")
        for note in card.imported.not_carried:
            terminal.say(f"lacks     {note}")
    for evidence in card.evidence:
        terminal.say(f"evidence  {evidence.title}, {evidence.model or 'no model'}")
        if evidence.served:
            served = ", ".join(evidence.served)
            terminal.say(f"          served as {served}")
        for name, figure in evidence.figures.items():
            terminal.say(f"          {name} {figure}")
        if evidence.attacks:
            terminal.say(f"          attacks that succeed: {', '.join(evidence.attacks)}")
    if not card.evidence:
        terminal.say("evidence  none: --card of judgegym audit, attack and score adds some")
    for line in card.explain_staleness():
        terminal.say(f"changed   {line}")
    return 0


def _check(options: argparse.Namespace) -> int:
    from judgegym.engine import terminal

    lines = list(_load(options.file).explain_staleness())
    for line in lines:
        terminal.say(f"{options.file}: {line}")
    return _STALE if lines else 0


def _export(options: argparse.Namespace) -> int:
    from judgegym.engine import terminal
    from judgegym.llm import wire

    card = _load(options.file)
    terminal.say(wire.dumps({"digest": card.digest, **card.to_values()}).decode())
    return 0


def _import(options: argparse.Namespace) -> int:
    from pydantic import ValidationError

    from judgegym.cli.judge_cards.formats import FORMATS, find_format, read_values
    from judgegym.cli.judge_cards.imports import ImportNotes, name_rule_file
    from judgegym.engine import terminal
    from judgegym.judges.prompt_files.card import ImportNote
    from judgegym.judges.prompt_files.evidence import digest_bytes

    path: Path = options.file
    out = options.out or Path(f"{path.stem}.yaml")
    notes = ImportNotes()
    try:
        values, data = read_values(path)
        name = find_format(values, options.format)
        if name not in FORMATS:
            raise ValueError(f"--format: expected one of {', '.join(FORMATS)}, found {name}")
        judge = FORMATS[name].importer(values, _read_fields(options.field), notes)
        note = ImportNote(
            format=name,
            name=judge.name,
            digest=digest_bytes(data),
            differs=tuple(notes.differs),
            not_carried=tuple(notes.not_carried),
        )
        card = judge.make_card(note, out.stem)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        message = first["msg"].removeprefix("Value error, ")
        field = f"{first['loc'][0]}: " if first["loc"] else ""
        raise SettingsError(f"{path}: {field}{message}") from None
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None
    rule_files = [out.with_name(name_rule_file(out.stem, part)) for part in judge.code]
    if len({*rule_files}) < len(rule_files):
        raise SettingsError(f"{path}: graders: names differ only in signs that files' names lack")
    for file in (out, *rule_files):
        _check_new(file)
    texts = dict(zip(rule_files, judge.code.values(), strict=True))
    _write_card({**texts, out: card.to_yaml()}, out)
    for rule_file in rule_files:
        terminal.say(f"wrote {rule_file}: read it, since the judge runs it")
    for line in notes.differs:
        terminal.say(f"differs: {line}")
    for line in notes.not_carried:
        terminal.say(f"not carried: {line}")
    terminal.say(f"wrote {out}")
    return 0


def _read_fields(words: Sequence[str]) -> FieldNames:
    """Return the placeholders of columns.

    Raises:
        ValueError: a word is no COLUMN=PLACEHOLDER.
    """
    from judgegym.cli.judge_cards.imports import USUAL_FIELDS
    from judgegym.judges.prompt_files.lines import PLACEHOLDERS

    fields = dict(USUAL_FIELDS)
    by_name = {name: name for name in PLACEHOLDERS}
    for word in words:
        column, _, name = word.partition("=")
        if not column or name not in by_name:
            expected = ", ".join(PLACEHOLDERS)
            raise ValueError(f"--field: {word!r}: expected COLUMN= and one of {expected}")
        fields[column] = by_name[name]
    return fields


def _check_new(path: Path) -> None:
    """Check that there is no such file.

    Raises:
        SettingsError: there is one.
    """
    if path.exists():
        raise SettingsError(f"{path} exists; name another card with --out")


def _write_card(texts: Mapping[Path, str], card: Path) -> None:
    """Write a card and the files beside it; none stays if no judge can be made of them.

    Raises:
        SettingsError: a file exists or cannot be written, or a setting of the card is wrong.
    """
    from judgegym.judges.scorers.cards import open_card

    written: list[Path] = []
    try:
        for path, text in texts.items():
            _write_new(path, text)
            written.append(path)
        open_card(card)
    except SettingsError:
        for path in written:
            path.unlink()
        raise


def _write_new(path: Path, text: str) -> None:
    """Write a new file.

    Raises:
        SettingsError: there is such a file, or it cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SettingsError(f"{path} exists; name another card with --out") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from None
