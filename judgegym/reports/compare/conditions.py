"""Compare the conditions of runs: judge, protocol and data.

If they differ, a difference of results is not the policy's alone. The policy may differ: its name,
its answers, its prompts and its sampling. Seeds may differ, too: they draw from the same
distribution. The number of selected rows does not matter, since shared rows are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from judgegym.engine.settings.env import CompletionSettings
from judgegym.engine.terminal.output import printable
from judgegym.judges.config.composed import expand_choices, json_defaults
from judgegym.judges.config.explaining import prompt_digest
from judgegym.judges.config.judge import JudgeSettings, PromptLayoutSettings
from judgegym.judges.scorers.settings import AnyJudgeSettings, KindSettings
from judgegym.llm import wire
from judgegym.llm.wire import JSON, mapping_or_empty
from judgegym.reports.results.run import SavedRun

Condition = Literal["judge", "protocol", "data"]
CONDITIONS: tuple[Condition, ...] = ("judge", "protocol", "data")

_JUDGE_SETTINGS = frozenset(
    (*JudgeSettings.model_fields, *PromptLayoutSettings.model_fields, "judges")
)
_POLICY_SETTINGS = frozenset((*CompletionSettings.model_fields, "model_answers", "candidates"))
_SCORER_SETTINGS = frozenset((*expand_choices(AnyJudgeSettings).model_fields, "offline"))
"""The judge's settings of a scored data set; a stand-in is another judge."""
_KIND = "judge"
"""The setting with the kind of judge of a data set."""
_SAMPLED = "responses_per_prompt"
"""The number of sampled responses; a run that judges them again has the first run's."""
_LAYOUT = "judge_prompt_layout"
_JUDGES, _POLICIES = "env.judges.", ("env.candidates.", "openai.")  # peer evaluation; all
_DERIVED = frozenset(("style_control",))
"""Settings that add numbers, but change neither a row nor the compared result."""
_LONGEST_SHOWN = 60
_DIGEST_SHOWN = len("sha256:") + 12


@dataclass(frozen=True, slots=True)
class ConditionDifference:
    """A difference between the conditions of a run and the reference.

    Attributes:
        condition: the condition that differs.
        letter: the run's name in tables.
        name: what differs, such as a setting.
        reference: the value in the reference.
        run: the value in the run.
    """

    condition: Condition
    letter: str
    name: str
    reference: str
    run: str

    def __str__(self) -> str:
        """Return what differs, with both values."""
        return f"{self.name}: A {self.reference}; {self.letter} {self.run}"


def find_condition_differences(
    reference: SavedRun, run: SavedRun, letter: str
) -> Iterator[ConditionDifference]:
    """Yield where the conditions of two runs differ, by `metrics.json`, without texts of rows."""
    settings = [_settings_by_owner(saved_run) for saved_run in (reference, run)]
    for condition in CONDITIONS[:2]:
        first, second = (owner_settings[condition] for owner_settings in settings)
        are_of_one_kind = first.get(_KIND) == second.get(
            _KIND
        )  # judges of different kinds have settings that the other never reads
        for name in (
            {**first, **second} if are_of_one_kind else [name for name in first if name in second]
        ):
            if not _are_equal(first, second, name):
                yield ConditionDifference(
                    condition,
                    letter,
                    name,
                    format_value(first.get(name)),
                    format_value(second.get(name)),
                )
    data = [
        _describe_data(saved_run, owner_settings["policy"])
        for saved_run, owner_settings in zip((reference, run), settings, strict=True)
    ]
    if data[0].keys() != data[1].keys():
        before, after = (
            ", ".join(
                description
                for digest, description in datasets.items()
                if digest not in other_datasets
            )
            or "none further"
            for datasets, other_datasets in (data, data[::-1])
        )
        yield ConditionDifference("data", letter, "datasets", before, after)


def _are_equal(first: Mapping[str, JSON], second: Mapping[str, JSON], name: str) -> bool:
    """Return whether a setting is equal; a setting that a run lacks has its default."""
    default = _judge_defaults().get(name.removeprefix("env."))
    return first.get(name, default) == second.get(name, default)


@cache
def _judge_defaults() -> Mapping[str, JSON]:
    """Return the defaults, as in files, of settings that only some kinds of judges have."""
    settings_type = expand_choices(AnyJudgeSettings)
    return json_defaults(
        settings_type, settings_type.model_fields.keys() - KindSettings.model_fields.keys()
    )


def policy_is_judge(run: SavedRun) -> bool:
    """Return whether the policy was the judge: then the judge's settings were not used."""
    sampling = run.general.get("generation_parameters")
    return isinstance(sampling, Mapping) and "judge_temperature" not in sampling


Owner = Literal["judge", "protocol", "policy", "derived", "nobody"]
"""The owner of a setting; `nobody` has those that are not compared: row limits, dataset paths."""


def _settings_by_owner(run: SavedRun) -> Mapping[str, Mapping[str, JSON]]:
    """Return the settings that determine the results, by what they belong to.

    The judge's are its model, the digests of its prompts and its settings without the seed. A
    setting with the name of a dataset that was read belongs to the data, even if the environment
    does not declare it so.
    """
    prompts = _prompt_digests(run)
    judges = _SCORER_SETTINGS if run.is_scored else _JUDGE_SETTINGS
    asks_nobody = not run.is_scored and policy_is_judge(
        run
    )  # the policy is the judge, so the judge's settings are unused
    names = [
        name
        for dataset in _list_datasets(run)
        if isinstance(name := wire.lookup(dataset, "name"), str)
    ]
    places = {*names, *map(prompt_digest, names)}

    def owner(name: str, value: JSON) -> Owner:
        bare = name.removeprefix("env.")
        if bare in judges or name.startswith(_JUDGES):
            if asks_nobody and bare != _LAYOUT:
                return "nobody"
            return "judge"
        if bare in _POLICY_SETTINGS or name.startswith(_POLICIES):
            return "policy"
        if bare in _DERIVED:
            return "derived"
        if name == "limit" or (isinstance(value, str) and value in places):
            return "nobody"
        return "protocol"

    if asks_nobody:
        model: dict[str, JSON] = {}
    else:
        model = {f"{_settings_prefix(run)}judge_model_name": run.judge}
    settings_by_owner: dict[str, dict[str, JSON]] = {
        owner_name: {} for owner_name in get_args(Owner)
    }
    settings_by_owner["judge"] |= {**model, **prompts}
    sampled = wire.lookup(run.general, f"answers_of.{_SAMPLED}")
    for name, value in {
        **_protocol_settings(run),
        **({} if sampled is None else {_SAMPLED: sampled}),
    }.items():
        if name in prompts:
            continue
        if _is_judge_request(name) and isinstance(value, Mapping):
            value = {key: item for key, item in value.items() if key != "seed"}
        settings_by_owner[owner(name, value)][name] = value
    return settings_by_owner


def _describe_data(run: SavedRun, policy_settings: Mapping[str, JSON]) -> Mapping[str, str]:
    """Return descriptions of the datasets by digest, for messages, without files of answers."""
    answers = {value for value in policy_settings.values() if isinstance(value, str)}
    descriptions: dict[str, str] = {}
    for dataset in _list_datasets(run):
        name, digest, rows = (wire.lookup(dataset, field) for field in ("name", "digest", "rows"))
        if isinstance(name, str):
            # A file of answers may be in a run whose answers were judged; settings hold digests of
            # long names.
            paths = (name, *map(str, Path(name).parents))
            places = {*paths, *map(prompt_digest, paths)}
            if not places & answers:
                row_count = format_value(rows)
                digest_text = format_value(digest)
                descriptions[_to_text(digest)] = f"{name} ({row_count} rows, {digest_text})"
    return descriptions


def list_notes(reference: SavedRun, run: SavedRun, letter: str) -> Iterator[str]:
    """Yield notes about differences that do not prevent a comparison."""
    owned = [_settings_by_owner(saved_run) for saved_run in (reference, run)]
    first, second = (
        {**owner_settings["policy"], **owner_settings["derived"]} for owner_settings in owned
    )
    settings = []
    for name in {**first, **second}:
        if first.get(name) != second.get(name):
            before = format_value(first.get(name))
            after = format_value(second.get(name))
            settings.append(f"{name}: A {before}; {letter} {after}")
    if settings:
        yield f"Settings differ, which is allowed: {', '.join(settings)}."
    seeds = [_describe_seeds(saved_run) for saved_run in (reference, run)]
    if seeds[0] != seeds[1]:
        yield f"The seeds differ, which is allowed (A: {seeds[0]}; {letter}: {seeds[1]})."
    for role in ("policy", "judge", "user"):
        served = [
            mapping_or_empty(wire.lookup(saved_run.general, f"served_models.{role}"))
            for saved_run in (reference, run)
        ]
        models, others = (", ".join(sorted(role_models)) or "unknown" for role_models in served)
        if models != others and all(served):
            yield f"The {role} was served as {models} in A, and as {others} in {letter}."
    for role in ("policy", "judge", "user"):
        refused = [_refused_fields(saved_run, role) for saved_run in (reference, run)]
        if refused[0] != refused[1] and {*refused} != {"none", "unknown"}:
            yield (
                f"The {role}s were not sent the same request fields, as endpoints refused some: "
                f"{refused[0]} in A, {refused[1]} in {letter}."
            )
    versions = [
        format_value(saved_run.general.get("judgegym_version")) for saved_run in (reference, run)
    ]
    if versions[0] != versions[1]:
        yield f"{letter} was made with version {versions[1]}, A with version {versions[0]}."


def _refused_fields(run: SavedRun, role: str) -> str:
    """Describe the request fields that endpoints refused; `unknown` in runs of older versions."""
    if "refused_fields" not in run.general:
        return "unknown"
    models = mapping_or_empty(wire.lookup(run.general, f"refused_fields.{role}"))
    fields = []
    for model in models:
        for name, becomes in mapping_or_empty(models[model]).items():
            fields.append((model, name, becomes))
    fields.sort(key=str)
    return ", ".join(f"{name} of {model} {becomes}" for model, name, becomes in fields) or "none"


def _describe_seeds(run: SavedRun) -> str:
    """Describe the seed of the run, and that of the judge if its requests have one."""
    bodies = (value for name, value in _protocol_settings(run).items() if _is_judge_request(name))
    judges = [
        format_value(seed) for body in bodies if (seed := wire.lookup(body, "seed")) is not None
    ]
    seed = format_value(run.general.get("seed"))
    if judges:
        return f"{seed}, its judge's {', '.join(judges)}"
    return seed


def _is_judge_request(name: str) -> bool:
    is_one_of_several = name.startswith(_JUDGES) and name.endswith(".extra_body")
    return name.removeprefix("env.") == "judge_extra_body" or is_one_of_several


def _settings_prefix(run: SavedRun) -> str:
    if run.is_scored:
        return ""
    return "env."


def _protocol_settings(run: SavedRun) -> Mapping[str, JSON]:
    return mapping_or_empty(run.general.get("protocol"))


def _prompt_digests(run: SavedRun) -> dict[str, JSON]:
    """Return the digests of the judge's prompts, by setting."""
    digests = mapping_or_empty(run.general.get("judge_prompt_digests"))
    prefix = _settings_prefix(run)
    return {f"{prefix}{name}": digest for name, digest in digests.items()}


def _list_datasets(run: SavedRun) -> Sequence[JSON]:
    datasets = None
    if run.is_scored:  # it may have judged a file again
        datasets = wire.lookup(run.general, "answers_of.datasets")
    if datasets is None:
        datasets = run.general.get("datasets")
    if isinstance(datasets, Sequence):
        return datasets
    return ()


def _to_text(value: JSON) -> str:
    """Format a value on a line: text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return wire.dumps(value).decode()


def format_value(value: JSON) -> str:
    """Format a value on a line, shortened if it is long or a digest."""
    if value is None:
        return "unset"
    text = printable(_to_text(value))
    if text.startswith("sha256:"):
        return f"{text[:_DIGEST_SHOWN]}…"
    if len(text) <= _LONGEST_SHOWN:
        return text
    return f"{text[: _LONGEST_SHOWN - 1]}…"
