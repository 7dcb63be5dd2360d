"""Under which conditions runs were made: judge, protocol and data. Where they differ, no difference is a policy's.

What may differ is the policy: its name, its answers, how it is prompted and sampled. Seeds may differ, too: they draw
from the same distribution. How many rows were selected does not matter, since shared rows are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from judgegym.engine.settings.env import CompletionSettings
from judgegym.engine.terminal.output import printable
from judgegym.judges.config.explaining import prompt_digest
from judgegym.judges.config.judge import JudgeSettings, PromptLayoutSettings
from judgegym.judges.scorers.registry import ScorerSettings
from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.reports.results.run import SavedRun, mapping_of

Condition = Literal["judge", "protocol", "data"]
CONDITIONS: tuple[Condition, ...] = ("judge", "protocol", "data")

_OF_JUDGES = frozenset(
    f"env.{name}" for name in (*JudgeSettings.model_fields, *PromptLayoutSettings.model_fields, "judges")
)
_OF_POLICIES = frozenset(f"env.{name}" for name in (*CompletionSettings.model_fields, "model_answers", "candidates"))
_OF_SCORERS = frozenset((*ScorerSettings.model_fields, "offline"))
"""The judge of a scored data set, whose settings have no section; a stand-in is another judge."""
_KIND = "judge"
"""The setting that says in which way a data set is judged."""
_SAMPLED = "responses_per_prompt"
"""The setting that says how many responses a policy was asked for; who judges them again says it of the first run."""
_JUDGES, _POLICIES = ("env.judges.",), ("env.candidates.", "openai.")  # of peer evaluation, and of all
_OF_ROWS = frozenset(("limit",))
_DERIVED = frozenset(("env.style_control",))
"""Settings that add numbers, and change neither a row nor the result that is compared."""
_SECTION, _EXTRA_BODY_OF_SCORER = "env.", "judge_extra_body"
_MODEL, _EXTRA_BODY, _LAYOUT = "env.judge_model_name", "env.judge_extra_body", "env.judge_prompt_layout"
_LONGEST_SHOWN = 60
_DIGEST_SHOWN = len("sha256:") + 12
UNSET = "unset"


@dataclass(frozen=True, slots=True)
class ConditionDifference:
    """A condition that differs between the reference and a run.

    Attributes:
        condition: what it belongs to.
        letter: the run.
        name: what differs, such as a setting.
        reference: its value in the reference.
        run: its value in the run.
    """

    condition: Condition
    letter: str
    name: str
    reference: str
    run: str


def differing(reference: SavedRun, run: SavedRun, letter: str) -> Iterator[ConditionDifference]:
    """Where the conditions of two runs differ, as far as `metrics.json` says; the texts of the rows are the data's."""
    readers: Sequence[tuple[Condition, Callable[[SavedRun], Mapping[str, JSON]]]]
    readers = (("judge", judge_of), ("protocol", protocol_of))
    for condition, read in readers:
        first, second = read(reference), read(run)
        are_of_one_kind = first.get(_KIND) == second.get(_KIND)  # or else each has settings that the other never reads
        for name in {**first, **second} if are_of_one_kind else [name for name in first if name in second]:
            if first.get(name) != second.get(name):
                yield ConditionDifference(condition, letter, name, shown(first.get(name)), shown(second.get(name)))
    first_data, second_data = data_of(reference), data_of(run)
    if first_data.keys() != second_data.keys():
        only = [
            ", ".join(said for digest, said in one.items() if digest not in other) or "none further"
            for one, other in ((first_data, second_data), (second_data, first_data))
        ]
        yield ConditionDifference("data", letter, "datasets", *only)


def policy_is_judge(run: SavedRun) -> bool:
    """Whether the policy judged: then the judge's settings asked nobody."""
    sampling = run.general.get("generation_parameters")
    return isinstance(sampling, Mapping) and "judge_temperature" not in sampling


def judge_of(run: SavedRun) -> dict[str, JSON]:
    """The judge by setting: its model, the digests of its prompts, its sampling."""
    prompts = _prompts(run)
    if run.is_scored:
        own = {name: value for name, value in _protocol(run).items() if name in _OF_SCORERS and name not in prompts}
        body = {name: _without_seed(value) for name, value in own.items() if name == _EXTRA_BODY_OF_SCORER}
        return {_MODEL.removeprefix(_SECTION): run.judge, **prompts, **own, **body}
    if policy_is_judge(run):
        layout = _protocol(run).get(_LAYOUT)
        return {**prompts, **({} if layout is None else {_LAYOUT: layout})}
    settings = {
        name: _without_seed(value) if _is_request_of_judge(name) else value
        for name, value in _protocol(run).items()
        if (name in _OF_JUDGES or name.startswith(_JUDGES)) and name not in prompts
    }
    return {_MODEL: run.judge, **prompts, **settings}


def protocol_of(run: SavedRun) -> dict[str, JSON]:
    """The settings that determine the results and belong neither to the judge nor to the policy nor to the data.

    A setting that names a dataset that was read is the data's, also where its environment does not say so.
    """
    if run.is_scored:
        sampled = wire.lookup(run.general, f"answers_of.{_SAMPLED}")
        return {
            name: value
            for name, value in {**_protocol(run), **({} if sampled is None else {_SAMPLED: sampled})}.items()
            if name not in _OF_SCORERS and f"{_SECTION}{name}" not in _OF_POLICIES and not name.startswith(_POLICIES)
        }
    belongs_elsewhere = _OF_JUDGES | _OF_POLICIES | _OF_ROWS | _DERIVED | _prompts(run).keys()
    names = [wire.lookup(dataset, "name") for dataset in _datasets(run)]
    places = {name for name in names if isinstance(name, str)}
    places |= {prompt_digest(place) for place in places}
    return {
        name: value
        for name, value in _protocol(run).items()
        if name not in belongs_elsewhere
        and not name.startswith((*_JUDGES, *_POLICIES))
        and not (isinstance(value, str) and value in places)
    }


def data_of(run: SavedRun) -> Mapping[str, str]:
    """The datasets that were read, by digest, without files of existing answers: what to call each in a message."""
    answers = {
        value
        for name, value in _protocol(run).items()
        if isinstance(value, str) and (name in _OF_POLICIES or name.startswith(_POLICIES))
    }
    found: dict[str, str] = {}
    for dataset in _datasets(run):
        name, digest, rows = (wire.lookup(dataset, field) for field in ("name", "digest", "rows"))
        if isinstance(name, str) and not _is_of(name, answers):
            found[shown_whole(digest)] = f"{name} ({shown(rows)} rows, {shown(digest)})"
    return found


def _datasets(run: SavedRun) -> Sequence[JSON]:
    found = wire.lookup(run.general, "answers_of.datasets") if run.is_scored else None  # of a file that is judged again
    found = run.general.get("datasets") if found is None else found
    return found if isinstance(found, Sequence) else ()


def _is_of(name: str, answers: Collection[str]) -> bool:
    """Whether a dataset is a file of answers, or lies in a run whose answers were judged; long names are digests."""
    places = (name, *map(str, Path(name).parents))
    return any(place in answers or prompt_digest(place) in answers for place in places)


def notes_on(reference: SavedRun, run: SavedRun, letter: str) -> Iterator[str]:
    """What differs that does not stand in the way of a comparison."""
    settings = [
        f"{name}: A {shown(one)}; {letter} {shown(other)}" for name, one, other in _allowed_differences(reference, run)
    ]
    if settings:
        yield f"Settings differ, as they may: {', '.join(settings)}."
    seeds = [seed_of(each) for each in (reference, run)]
    if seeds[0] != seeds[1]:
        yield f"The seeds differ, as they may (A: {seeds[0]}; {letter}: {seeds[1]})."
    versions = [shown(each.general.get("judgegym_version")) for each in (reference, run)]
    if versions[0] != versions[1]:
        yield f"{letter} was made with version {versions[1]}, A with version {versions[0]}."


def _allowed_differences(reference: SavedRun, run: SavedRun) -> Iterator[tuple[str, JSON, JSON]]:
    """The settings with both values that differ and belong to the policy, or add numbers alone."""
    first, second = _protocol(reference), _protocol(run)
    section = _SECTION if not reference.is_scored else ""
    policies = {name.removeprefix(_SECTION) if not section else name for name in _OF_POLICIES | _DERIVED}
    for name in {**first, **second}:
        is_allowed = name in policies or name.startswith(_POLICIES)
        if is_allowed and first.get(name) != second.get(name):
            yield name, first.get(name), second.get(name)


def seed_of(run: SavedRun) -> str:
    """The seed of the run, and that of the judge where its requests have one."""
    bodies = (value for name, value in _protocol(run).items() if _is_request_of_judge(name))
    judges = [shown(seed) for body in bodies if (seed := wire.lookup(body, "seed")) is not None]
    seed = shown(run.general.get("seed"))
    return f"{seed}, its judge's {', '.join(judges)}" if judges else seed


def _is_request_of_judge(name: str) -> bool:
    return name in (_EXTRA_BODY, _EXTRA_BODY_OF_SCORER) or (name.startswith(_JUDGES) and name.endswith(".extra_body"))


def _without_seed(value: JSON) -> JSON:
    return {name: each for name, each in value.items() if name != "seed"} if isinstance(value, Mapping) else value


def _protocol(run: SavedRun) -> Mapping[str, JSON]:
    return mapping_of(run.general.get("protocol"))


def _prompts(run: SavedRun) -> dict[str, JSON]:
    """The digests of the judge's prompts, by setting."""
    section = "" if run.is_scored else _SECTION
    return {f"{section}{name}": digest for name, digest in mapping_of(run.general.get("judge_prompt_digests")).items()}


def shown_whole(value: JSON) -> str:
    """A value in a line: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else wire.dumps(value).decode()


def shown(value: JSON) -> str:
    """A value in a line, cut if it is long; of a digest its beginning."""
    if value is None:
        return UNSET
    text = printable(shown_whole(value))
    if text.startswith("sha256:"):
        return f"{text[:_DIGEST_SHOWN]}…"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"
