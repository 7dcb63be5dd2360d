"""Under which conditions runs were made: judge, protocol and data. Where they differ, no difference is a policy's.

What may differ is the policy: its name, its answers, how it is prompted and sampled. Seeds may differ, too: they draw
from the same distribution. How many rows were selected does not matter, since shared rows are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from judgegym.engine.settings.env import CompletionSettings
from judgegym.engine.terminal.output import printable
from judgegym.judges.config.explaining import prompt_digest
from judgegym.judges.config.judge import JudgeSettings, PromptLayoutSettings
from judgegym.judges.scorers.registry import ScorerSettings
from judgegym.llm import wire
from judgegym.llm.wire import JSON, mapping_of
from judgegym.reports.results.run import SavedRun

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
_JUDGES, _POLICIES = "env.judges.", ("env.candidates.", "openai.")  # of peer evaluation, and of all
_DERIVED = frozenset(("env.style_control",))
"""Settings that add numbers, and change neither a row nor the result that is compared."""
_LONGEST_SHOWN = 60
_DIGEST_SHOWN = len("sha256:") + 12


def differing(reference: SavedRun, run: SavedRun, letter: str) -> Iterator[dict[str, str]]:
    """Where the conditions of two runs differ, as far as `metrics.json` says; the texts of the rows are the data's."""
    for condition, read in (("judge", _judge), ("protocol", _own_protocol)):
        first, second = read(reference), read(run)
        are_of_one_kind = first.get(_KIND) == second.get(_KIND)  # or else each has settings that the other never reads
        for name in {**first, **second} if are_of_one_kind else [name for name in first if name in second]:
            if first.get(name) != second.get(name):
                yield condition_difference(condition, letter, name, shown(first.get(name)), shown(second.get(name)))
    data = [_data(each) for each in (reference, run)]
    if data[0].keys() != data[1].keys():
        before, after = (
            ", ".join(said for digest, said in one.items() if digest not in other) or "none further"
            for one, other in (data, data[::-1])
        )
        yield condition_difference("data", letter, "datasets", before, after)


def condition_difference(condition: str, letter: str, name: str, reference: str, run: str) -> dict[str, str]:
    """What differs between the reference and a run, such as a setting, to what it belongs, and both values."""
    return {"condition": condition, "letter": letter, "name": name, "reference": reference, "run": run}


def sides_of(difference: Mapping[str, str]) -> str:
    """A condition that differs, with both values, in words."""
    return "{name}: A {reference}; {letter} {run}".format_map(difference)


def policy_is_judge(run: SavedRun) -> bool:
    """Whether the policy judged: then the judge's settings asked nobody."""
    sampling = run.general.get("generation_parameters")
    return isinstance(sampling, Mapping) and "judge_temperature" not in sampling


def _judge(run: SavedRun) -> dict[str, JSON]:
    """The judge by setting: its model, the digests of its prompts, its sampling, whose seed may differ."""
    prompts, protocol = _prompts(run), _protocol(run)
    if not run.is_scored and policy_is_judge(run):
        layout = protocol.get("env.judge_prompt_layout")
        return {**prompts, **({} if layout is None else {"env.judge_prompt_layout": layout})}
    settings = {
        name: {key: each for key, each in value.items() if key != "seed"}
        if _is_request_of_judge(name) and isinstance(value, Mapping)
        else value
        for name, value in protocol.items()
        if (name in _OF_SCORERS if run.is_scored else name in _OF_JUDGES or name.startswith(_JUDGES))
        and name not in prompts
    }
    return {f"{_section(run)}judge_model_name": run.judge, **prompts, **settings}


def _own_protocol(run: SavedRun) -> dict[str, JSON]:
    """The settings that determine the results and belong neither to the judge nor to the policy nor to the data.

    A setting that names a dataset that was read is the data's, also where its environment does not say so.
    """
    protocol, section = _protocol(run), _section(run)
    sampled = wire.lookup(run.general, f"answers_of.{_SAMPLED}")
    elsewhere = _OF_JUDGES | _OF_POLICIES | _DERIVED | {"limit", *_prompts(run)}
    places: set[str] = set()
    if run.is_scored:
        protocol = {**protocol, **({} if sampled is None else {_SAMPLED: sampled})}
        elsewhere = _OF_SCORERS | {name.removeprefix("env.") for name in _OF_POLICIES}
    else:
        names = [name for dataset in _datasets(run) if isinstance(name := wire.lookup(dataset, "name"), str)]
        places = {*names, *map(prompt_digest, names)}
    return {
        name: value
        for name, value in protocol.items()
        if name not in elsewhere
        and not name.startswith(_POLICIES)
        and not (section and name.startswith(_JUDGES))
        and not (isinstance(value, str) and value in places)
    }


def _data(run: SavedRun) -> Mapping[str, str]:
    """The datasets that were read, by digest, without files of existing answers: what to call each in a message."""
    answers = {
        value
        for name, value in _protocol(run).items()
        if isinstance(value, str) and (name in _OF_POLICIES or name.startswith(_POLICIES))
    }
    found: dict[str, str] = {}
    for dataset in _datasets(run):
        name, digest, rows = (wire.lookup(dataset, field) for field in ("name", "digest", "rows"))
        if isinstance(name, str):
            # A file of answers may lie in a run whose answers were judged; long names are digests.
            places = {place for path in (name, *map(str, Path(name).parents)) for place in (path, prompt_digest(path))}
            if not places & answers:
                found[_text(digest)] = f"{name} ({shown(rows)} rows, {shown(digest)})"
    return found


def notes_on(reference: SavedRun, run: SavedRun, letter: str) -> Iterator[str]:
    """What differs that does not stand in the way of a comparison."""
    first, second = _protocol(reference), _protocol(run)
    section = _section(reference)
    policies = {name if section else name.removeprefix("env.") for name in _OF_POLICIES | _DERIVED}
    settings = [
        f"{name}: A {shown(first.get(name))}; {letter} {shown(second.get(name))}"
        for name in {**first, **second}
        if (name in policies or name.startswith(_POLICIES)) and first.get(name) != second.get(name)
    ]
    if settings:
        yield f"Settings differ, as they may: {', '.join(settings)}."
    seeds = [_seed(each) for each in (reference, run)]
    if seeds[0] != seeds[1]:
        yield f"The seeds differ, as they may (A: {seeds[0]}; {letter}: {seeds[1]})."
    for role in ("policy", "judge", "user"):
        served = [mapping_of(wire.lookup(each.general, f"served_models.{role}")) for each in (reference, run)]
        models, others = (", ".join(sorted(each)) or "unknown" for each in served)
        if models != others and all(served):
            yield f"The {role} was served as {models} in A, and as {others} in {letter}."
    versions = [shown(each.general.get("judgegym_version")) for each in (reference, run)]
    if versions[0] != versions[1]:
        yield f"{letter} was made with version {versions[1]}, A with version {versions[0]}."


def _seed(run: SavedRun) -> str:
    """The seed of the run, and that of the judge where its requests have one."""
    bodies = (value for name, value in _protocol(run).items() if _is_request_of_judge(name))
    judges = [shown(seed) for body in bodies if (seed := wire.lookup(body, "seed")) is not None]
    seed = shown(run.general.get("seed"))
    return f"{seed}, its judge's {', '.join(judges)}" if judges else seed


def _is_request_of_judge(name: str) -> bool:
    is_one_of_several = name.startswith(_JUDGES) and name.endswith(".extra_body")
    return name.removeprefix("env.") == "judge_extra_body" or is_one_of_several


def _section(run: SavedRun) -> str:
    return "" if run.is_scored else "env."


def _protocol(run: SavedRun) -> Mapping[str, JSON]:
    return mapping_of(run.general.get("protocol"))


def _prompts(run: SavedRun) -> dict[str, JSON]:
    """The digests of the judge's prompts, by setting."""
    digests = mapping_of(run.general.get("judge_prompt_digests"))
    return {f"{_section(run)}{name}": digest for name, digest in digests.items()}


def _datasets(run: SavedRun) -> Sequence[JSON]:
    found = wire.lookup(run.general, "answers_of.datasets") if run.is_scored else None  # of a file that is judged again
    found = run.general.get("datasets") if found is None else found
    return found if isinstance(found, Sequence) else ()


def _text(value: JSON) -> str:
    """A value in a line: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else wire.dumps(value).decode()


def shown(value: JSON) -> str:
    """A value in a line, cut if it is long; of a digest its beginning."""
    if value is None:
        return "unset"
    text = printable(_text(value))
    if text.startswith("sha256:"):
        return f"{text[:_DIGEST_SHOWN]}…"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"
