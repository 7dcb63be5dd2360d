"""Cards: a judge as one file, with what is known about it.

    prompt: …                    # the fields of a prompt file; or none, and `judge` names a kind
    judge:                       # a section as in a file of settings
      samples_per_item: 3
      endpoint: {model: gpt-6-luna, temperature: 0}
    imported: {…}                # where it comes from, and what could not be carried
    evidence: [{…}]              # what audit, attack and repeats measured

Guarantees: a card has no address and no key, so that a card of somebody else sends a key nowhere.
    Evidence is no part of a judge's settings: a run is resumed with a card that has gained some.
    Files that a card names are looked up in its own folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from judgegym.judges.config.explaining import is_prompt_file, prompt_digest
from judgegym.judges.config.presets import load_yaml
from judgegym.judges.prompt_files.card_yaml import OneLine, write_yaml
from judgegym.judges.prompt_files.evidence import Evidence, digest_bytes
from judgegym.judges.prompt_files.file import CARD_SECTIONS, PromptFile, PromptSource, read_source
from judgegym.llm import wire

_PROMPT_KIND = "prompt"
_ADDRESSES = ("base_url", "replicas", "api_key", "api_key_env", "key_host", "extra_headers")
_REFUSED = frozenset((*_ADDRESSES, *(f"judge_{name}" for name in _ADDRESSES)))

_FILE_SETTINGS = frozenset(("rule", "kind", "judge", "judge_prompt"))
"""Settings whose values may be `FILE.py:NAME` or a prompt file; those of others may be `@FILE`."""


_TEXT_SETTINGS = frozenset(("criteria", "aspects"))
"""Settings whose lists hold texts, which name no files."""


class ImportNote(BaseModel):
    """Where a card comes from.

    Attributes:
        format: the format of the imported file.
        name: the judge's name there.
        digest: the digest of the imported file.
        differs: what is carried in another wording.
        not_carried: what is not carried, with the reason.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str
    name: str = ""
    digest: str = ""
    differs: tuple[str, ...] = ()
    not_carried: tuple[str, ...] = ()


class JudgeCard(BaseModel):
    """A judge, where it comes from, and the evidence on it.

    Attributes:
        prompt_file: the prompt, its scale and the position of the verdict; `None` for a judge of
            another kind.
        judge: the judge's section, as in a file of settings.
        imported: where it comes from.
        evidence: what was measured.
        folder: the folder in which files that the section names are looked up.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt_file: PromptFile | None = None
    judge: dict[str, JsonValue] = {}
    imported: ImportNote | None = None
    evidence: tuple[Evidence, ...] = ()
    folder: Path | None = None

    @property
    def section(self) -> Mapping[str, JsonValue]:
        """The judge's section with its kind, and with names of files that any folder can read."""
        section = self.judge
        if self.folder is not None:
            section = _resolve_files(section, self.folder)
        if self.prompt_file is None:
            return section
        return {**section, "kind": _PROMPT_KIND}

    @property
    def model(self) -> str | None:
        """The model that the card names."""
        endpoint = self.judge.get("endpoint")
        if isinstance(endpoint, Mapping):
            name = endpoint.get("model")
        else:
            name = self.judge.get("judge_model_name")
        return name if isinstance(name, str) else None

    @cached_property
    def digest(self) -> str:
        """The digest of prompt, scale, verdict and settings, without the model's name.

        It covers the content of files that the settings name, if the card is read from a file.
        """
        settings = {name: value for name, value in self.judge.items() if name != "judge_model_name"}
        endpoint = settings.get("endpoint")
        if isinstance(endpoint, Mapping):
            settings["endpoint"] = {
                name: value for name, value in endpoint.items() if name != "model"
            }
            if not settings["endpoint"]:
                del settings["endpoint"]
        content: dict[str, Any] = {"judge": settings, "prompt": self._prompt_fields}
        if self.folder is not None and (files := [*_digest_files(self.judge, self.folder)]):
            content["files"] = files
        return prompt_digest(_write_json(content))

    @property
    def _prompt_fields(self) -> dict[str, Any]:
        if self.prompt_file is None:
            return {}
        fields = self.prompt_file.model_dump(mode="json", exclude_defaults=True)
        fields["verdict"] = self.prompt_file.verdict.model_dump(exclude_none=True)
        return fields

    def explain_staleness(self) -> Iterator[str]:
        """Yield a line for each piece of evidence that another judge or model has earned."""
        for evidence in self.evidence:
            if evidence.judge != self.digest:
                yield f"{evidence.title}: prompt, scale or settings have changed since"
            if self.model is not None and evidence.model != self.model:
                yield f"{evidence.title}: measured with {evidence.model}, not with {self.model}"

    def to_values(self) -> dict[str, Any]:
        """Return the fields of the card's file."""
        values = self._prompt_fields
        if self.judge:
            values["judge"] = dict(self.judge)
        if self.imported is not None:
            values["imported"] = self.imported.model_dump(mode="json", exclude_defaults=True)
        if self.evidence:
            values["evidence"] = [_dump_evidence(evidence) for evidence in self.evidence]
        return values

    def to_yaml(self) -> str:
        """Return the text of the card's file."""
        return write_yaml(self.to_values())


def load_card(path: Path) -> JudgeCard:
    """Read a card, or a prompt file without any section of a card.

    Raises:
        ValueError: it cannot be read, or is invalid; the message names file and line.
    """
    card = parse_card(read_source(path))
    _check_parts(card, path, (path.resolve(),), set())
    return card


def _check_parts(card: JudgeCard, path: Path, chain: tuple[Path, ...], checked: set[Path]) -> None:
    """Check that no part of a card, to any depth, is a card that it is a part of.

    Raises:
        ValueError: one is.
    """
    for name in _list_judge_files(card.section):
        file = Path(name).expanduser().resolve()
        if file in chain:
            raise ValueError(f"{path}:1: the judge is a part of itself, by {name}")
        if file in checked:
            continue
        checked.add(file)
        try:
            part = parse_card(read_source(file))
        except ValueError:
            continue  # the settings' validation explains it
        _check_parts(part, path, (*chain, file), checked)


def _list_judge_files(value: object) -> Iterator[str]:
    """Yield the judges' files that a section names, to any depth."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name in _FILE_SETTINGS and is_prompt_file(inner):
                yield inner
            yield from _list_judge_files(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _list_judge_files(inner)


def parse_card(source: PromptSource) -> JudgeCard:
    """Parse the values of a card's file.

    Raises:
        ValueError: they are invalid; the message names file and line.
    """
    sections = {name: source.values[name] for name in CARD_SECTIONS if name in source.values}
    section = sections.get("judge", {})
    names_kind = isinstance(section, Mapping) and "kind" in section
    prompt = None
    if source.has_prompt or not names_kind:
        prompt = source.parse_prompt()
    elif unknown := [name for name in source.values if name not in CARD_SECTIONS]:
        expected = ", ".join((*PromptFile.model_fields, *CARD_SECTIONS))
        raise _make_error(source, str(unknown[0]), f"{unknown[0]}: unknown; expected {expected}")
    if prompt is not None and names_kind and section["kind"] != _PROMPT_KIND:
        problem = f"judge.kind: the file has a prompt, so expected {_PROMPT_KIND}"
        raise _make_error(source, "judge", f"{problem}, found {section['kind']!r}")
    try:
        card = JudgeCard.model_validate(
            {**sections, "prompt_file": prompt, "folder": source.path.parent}
        )
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        location = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        name = str(first["loc"][0]) if first["loc"] else "judge"
        raise _make_error(source, name, f"{location}: {message}") from None
    if is_prompt_file(card.judge.get("kind")):
        problem = f"judge.kind: {card.judge['kind']} is a judge's file; use it in place of this one"
        raise _make_error(source, "judge", problem)
    for path in _find_addresses(card.judge, "judge", source.path.parent):
        problem = "a card has no address and no key; give it to the command"
        raise _make_error(source, "judge", f"{path}: {problem}")
    return card


def _make_error(source: PromptSource, name: str, message: str) -> ValueError:
    line = source.locations.lines.get(name, 1)
    return ValueError(f"{source.path}:{line}: {message}")


def _find_addresses(value: object, path: str, folder: Path) -> Iterator[str]:
    """Yield the paths of settings that name an address or a key, to any depth.

    Settings may also be a text in JSON, or in a file of the folder.
    """
    if isinstance(value, str):
        value = _parse_settings(value, folder)
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name in _REFUSED:
                yield f"{path}.{name}"
            else:
                yield from _find_addresses(inner, f"{path}.{name}", folder)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _find_addresses(inner, f"{path}.{number}", folder)


def _parse_settings(text: str, folder: Path) -> object:
    """Return the settings in a text, as those of parts are read; `None` for another text."""
    is_file = text.startswith("@")
    if is_file:
        try:
            text = (folder / Path(text[1:]).expanduser()).read_text("utf-8")
        except (OSError, ValueError, RuntimeError):  # the setting's validation explains it
            return None
    if text.lstrip()[:1] in ("[", "{"):
        value = wire.loads_or_none(text)
        if value is not None:
            return value
    if not is_file:
        return None
    try:
        parsed = load_yaml(text)
    except ValueError:
        return None
    return parsed if isinstance(parsed, Mapping | list) else None


def _digest_files(value: Any, folder: Path) -> Iterator[str]:
    """Yield the digests of the files that a section names, in its order."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        return
    for name in sorted(value, key=str):
        item = value[name]
        if _holds_texts(name, item):
            continue
        if not isinstance(item, str):
            yield from _digest_files(item, folder)
            continue
        resolved = _resolve_setting(str(name), item, folder)
        if resolved == item:
            continue
        file, python, _ = resolved.removeprefix("@").partition(".py:")
        path = Path(f"{file}.py" if python else file)
        if not resolved.startswith("@") and is_prompt_file(resolved):
            yield load_card(path).digest
        elif path.is_file():
            yield digest_bytes(path.read_bytes())


def _resolve_files(value: Any, folder: Path) -> Any:
    """Return a section in which relative names of files begin at a folder."""
    if isinstance(value, list):
        return [_resolve_files(item, folder) for item in value]
    if not isinstance(value, Mapping):
        return value
    resolved: dict[str, Any] = {}
    for name, item in value.items():
        if isinstance(item, str):
            resolved[name] = _resolve_setting(name, item, folder)
        elif _holds_texts(name, item):
            resolved[name] = item
        else:
            resolved[name] = _resolve_files(item, folder)
    return resolved


def _holds_texts(name: object, value: object) -> bool:
    """Return whether a setting's value is a list of texts, in which `@` is a sign as others are."""
    return name in _TEXT_SETTINGS and isinstance(value, list)


def _resolve_setting(name: str, text: str, folder: Path) -> str:
    """Return the value of a setting; a name of a file becomes one that any folder can read."""
    if text.startswith("@"):
        return f"@{folder / Path(text[1:]).expanduser()}"
    if name in _FILE_SETTINGS and (".py:" in text or is_prompt_file(text)):
        return str(folder / Path(text).expanduser())
    return text


def _dump_evidence(evidence: Evidence) -> dict[str, Any]:
    values: dict[str, Any] = evidence.model_dump(mode="json", exclude_defaults=True)
    if evidence.figures:
        values["figures"] = {
            name: OneLine(figure.model_dump(exclude_none=True))
            for name, figure in evidence.figures.items()
        }
    return values


def _write_json(values: Mapping[str, Any]) -> str:
    return wire.dumps(_sort_names(values)).decode()


def _sort_names(value: Any) -> Any:
    """Return a value with the names of all mappings in order, which has no meaning."""
    if isinstance(value, Mapping):
        return [[name, _sort_names(value[name])] for name in sorted(value)]
    if isinstance(value, list | tuple):
        return [_sort_names(item) for item in value]
    return value
