"""Rows and labels as Argilla 2 has them: what `Dataset.records.to_json` writes and `from_json` reads.

A record is {"id", "fields", "metadata", "suggestions", "responses": {question: [{"value", "user_id"}]}, "vectors"}. The
question is `label`, or with several parts one for each; its values are the words of the page's buttons. Of a comparison
`response_a` is in an order of its own for each row, which follows from the seed. Users of Argilla are UUIDs: a
labeller's is a UUID of the name, and the names are in the metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from judgegym.llm import wire
from judgegym.llm.errors import DataError
from judgegym.llm.wire import JSON, mapping_of
from judgegym.reports.labels.file import Label
from judgegym_trials.labelling.questions import QuestionPart, texts_to_label
from judgegym_trials.labelling.session import Session

_CANNOT_TELL = "cannot tell"
_LABEL = "label"
_ARGILLA = "argilla"
"""Stands in a labeller's place where the order of responses is drawn."""


def records_of(session: Session, count: int) -> list[JSON]:
    """Return the first `count` rows of the draw as records, with the labels that they have."""
    question = session.question
    given: dict[str, list[Label]] = {}
    for label in session.labels.given.values():
        given.setdefault(label.uid, []).append(label)
    records: list[JSON] = []
    for uid in session.order[:count]:
        is_first = session.is_first(uid, _ARGILLA)
        texts, responses = texts_to_label(session.run.read_sample(uid), is_first=is_first, compares=question.compares)
        answers: dict[str, list[JSON]] = {_name(part): [] for part in question.parts}
        for label in given.get(uid, ()):
            for part in question.parts:
                value = _value(part, label, is_first=is_first or not question.compares)
                answers[_name(part)].append({"value": value, "user_id": _user(label.labeller)})
        records.append(
            {
                "id": uid,
                "fields": {_slug(name): text for name, text in (texts | responses).items()},
                "metadata": {"labellers": [label.labeller for label in given[uid]]} if uid in given else {},
                "suggestions": {},
                "responses": {name: found for name, found in answers.items() if found},
                "vectors": {},
            }
        )
    return records


def labels_of(session: Session, path: Path) -> Iterator[Label]:
    """Read labels from records with responses.

    Raises:
        DataError: it is no such file, or a record is of no row of the draw; the message names the record.
    """
    try:
        records = wire.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    if not isinstance(records, Sequence) or isinstance(records, str):
        raise DataError(f"{path}: expected a list of records, as Argilla's records.to_json writes it")
    for number, record in enumerate(records, start=1):
        try:
            yield from _labels_of_record(session, mapping_of(record))
        except ValueError as error:
            raise DataError(f"{path}, record {number}: {error}") from error


def _labels_of_record(session: Session, record: Mapping[str, JSON]) -> Iterator[Label]:
    uid, question = record.get("id"), session.question
    if not isinstance(uid, str) or uid not in session.values:
        raise ValueError(f"the id {uid!r} is no row of {session.run.path}")
    names = mapping_of(record.get("metadata")).get("labellers")
    known = {_user(name): name for name in names if isinstance(name, str)} if isinstance(names, Sequence) else {}
    keys: dict[str, list[str | None]] = {}
    for part in question.parts:
        responses = mapping_of(record.get("responses")).get(_name(part)) or ()
        for response in map(mapping_of, responses if isinstance(responses, Sequence) else ()):
            keys.setdefault(str(response.get("user_id")), []).append(_key(part, response.get("value")))
    for user, chosen in keys.items():
        if len(chosen) != len(question.parts):
            raise ValueError(f"user {user} answers {len(chosen)} of {len(question.parts)} questions")
        whole = [key for key in chosen if key is not None]
        if len(whole) < len(chosen):
            yield Label(uid, known.get(user, user), None)
        else:
            value, parts = question.label("".join(whole), is_first=session.is_first(uid, _ARGILLA))
            yield Label(uid, known.get(user, user), value, parts=parts)


def _key(part: QuestionPart, value: JSON) -> str | None:
    """The key of an option by its words; `None` for "cannot tell"."""
    if value == _CANNOT_TELL:
        return None
    for option in part.options:
        if str(value) in (option.words, option.key):
            return option.key
    expected = ", ".join(repr(option.words) for option in part.options)
    raise ValueError(f"{_name(part)} is {value!r}; expected {expected} or {_CANNOT_TELL!r}")


def _value(part: QuestionPart, label: Label, *, is_first: bool) -> str:
    """The words of the option that a label is of."""
    value = label.parts.get(part.name, label.label)
    if value is None:
        return _CANNOT_TELL
    wanted = value if is_first else 1.0 - value
    return min(part.options, key=lambda option: abs(option.value - wanted)).words


def _name(part: QuestionPart) -> str:
    return _slug(part.name) if part.name else _LABEL


def _slug(name: str) -> str:
    """A name that Argilla allows."""
    return re.sub(r"[^a-z0-9_-]+", "_", name.lower())


def _user(labeller: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"judgegym:{labeller}"))
