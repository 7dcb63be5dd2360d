"""Recorded runs as members of juries and cascades: their names, the settings of their judges, and the replayed run.

A member is judged with the settings that its run's `config.yaml` has, by the machinery of `judgegym score`, so that the
samples are those of a live run of that jury or cascade.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judgegym.datasets.files.columns import check_out
from judgegym.datasets.score.clients import ScoreClients
from judgegym.datasets.score.run import ScoreRun
from judgegym.datasets.score.settings import OUT, ScoreSettings
from judgegym.engine import terminal
from judgegym.engine.runs.directory import check_unused, run_directory_of
from judgegym.engine.settings.policy import STAND_IN_JUDGE
from judgegym.environments.evaluate.evaluation import EvaluationResult
from judgegym.judges.config.fields import declared_settings
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.core.naming import slug
from judgegym.judges.scorers.registry import MADE_OF_JUDGES, SINGLE, ScorerSettings, kinds_that_read
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON, text_of
from judgegym.reports.compare.comparison import open_run
from judgegym.reports.results.run import SavedRun
from judgegym.validation.replay.recordings import RecordedAnswers, ReplayClient

_NOT_OF_A_PART = frozenset({"judge", "judge_cache", "judge_extra_headers", "judge_api_key", "seed"})
_DATA = frozenset(each.name for each in declared_settings(ScoreSettings) if each.group == "data")
_OF_ONE_RUN = frozenset({"out", "labels", "config", "data"})


@dataclass(frozen=True)
class RecordedJudge:
    """A recorded run.

    Attributes:
        name: as a member of a jury or a cascade.
        run: its directory.
        is_judge: it can be replayed: a run of `judgegym score` whose judge sees each response by itself.
    """

    name: str
    run: SavedRun

    @property
    def is_judge(self) -> bool:
        """Whether a jury or a cascade can have its judge."""
        return self.run.is_scored and self.run.config.get("judge") in SINGLE

    def fields(self) -> dict[str, JSON]:
        """The settings of its judge that differ from their defaults."""
        config, usual = self.run.config, ScorerSettings().model_dump(mode="json")
        kind = text_of(config.get("judge"))
        of_others = {made.field for other, made in MADE_OF_JUDGES.items() if other != kind}
        names = {name for name in usual if kind in kinds_that_read(name)} - _NOT_OF_A_PART - of_others
        found = {name: config[name] for name in sorted(names) if name in config and config[name] != usual[name]}
        return {"judge": kind, **found}


def open_members(words: Sequence[str]) -> list[RecordedJudge]:
    """Open runs, each given as RUN or NAME=RUN.

    A run without a name is called by its judge's model, or by its folder where several have one model.

    Raises:
        RunDirectoryError: there is no such run, or it is not complete.
        SettingsError: two runs have the same name, or there is one run.
    """
    given = [("", word) if Path(word).exists() or "=" not in word else word.split("=", 1) for word in words]
    runs = [(name, open_run(word)) for name, word in given]
    models = Counter(_model(run) for _, run in runs)
    members = []
    for name, run in runs:
        if not run.is_complete:
            raise SettingsError(f"{run.path}: the run is not complete; finish it with --resume")
        model = _model(run)
        usual = model if model and models[model] == 1 else run.path.resolve().name.removesuffix(".run")
        members.append(RecordedJudge(name or usual, run))
    same = [name for name, count in Counter(slug(member.name) for member in members).items() if count > 1]
    if same:
        raise SettingsError(f"two runs are called {same[0]}; name them: NAME=RUN")
    return members


def _model(run: SavedRun) -> str:
    return text_of(run.config.get("judge_model_name")) or run.judge


def judge_settings(members: Sequence[RecordedJudge], field: str, rules: Mapping[str, object]) -> dict[str, object]:
    """The settings of a jury (`field` is `judges`) or a cascade (`cascade`) of these members.

    Raises:
        SettingsError: one has no judge that can be a member.
    """
    for member in members:
        if not member.is_judge:
            raise SettingsError(
                f"{member.run.path}: a run of judgegym score, whose judge sees each response by itself, can be a "
                f"member; this one is of {member.run.environment or 'an unknown command'}, and takes part in tables"
            )
    seeds = [member.run.config.get("seed", 0) for member in members]
    parts = {member.name: member.fields() for member in members}
    for part, seed in zip(parts.values(), seeds, strict=True):
        part |= {"seed": seed} if len({*map(str, seeds)}) > 1 else {}
    return {"judge": "jury" if field == "judges" else "cascade", "seed": seeds[0], **rules, field: parts}


def score_settings(members: Sequence[RecordedJudge], judge: Mapping[str, object], data: str | None) -> ScoreSettings:
    """The settings of `judgegym score` for a jury or a cascade of these members, on their data.

    Args:
        members: the runs.
        judge: what `judge_settings` returns.
        data: where the data is now; by default where it was.

    Raises:
        SettingsError: the runs judged different data, or a setting is wrong.
    """
    configs = [member.run.config for member in members]
    first, *others = [{name: config[name] for name in sorted(_DATA & config.keys())} for config in configs]
    for member, other in zip(members[1:], others, strict=True):
        differing = [name for name in first if name not in _OF_ONE_RUN and first[name] != other.get(name)]
        if differing:
            raise SettingsError(
                f"{member.run.path}: its {differing[0]} is {other.get(differing[0])!r}, and that of "
                f"{members[0].run.path} is {first[differing[0]]!r}; expected runs on the same data"
            )
    if configs[0].get("responses_per_prompt") is not None:
        raise SettingsError(
            f"{members[0].run.path}: its responses were sampled; judge them with score --rescore, and replay those runs"
        )
    if len({bool(config.get("offline")) for config in configs}) > 1:
        raise SettingsError("some of these runs are of stand-ins (--offline), and others of real judges")
    operational = {"offline": bool(configs[0].get("offline")), "write_report": False}
    read = {name: value for name, value in first.items() if name not in _OF_ONE_RUN}
    return settings_from_keywords(ScoreSettings, {**read, **operational, **judge, "data": data or first.get("data")})


def open_client(members: Sequence[RecordedJudge], settings: ScoreSettings) -> ReplayClient:
    """The client that answers from the members' runs.

    Raises:
        DataError: a run has no ledger.
    """
    recorded = {member.name: RecordedAnswers(member.run.path) for member in members}
    return ReplayClient.of_runs(recorded, stand_in=STAND_IN_JUDGE if settings.offline else None)


def without_keys(settings: ScoreSettings) -> ScoreSettings:
    """The settings for judges that send nothing, so that they ask for no key."""
    opened = settings.model_copy(deep=True)
    for made in MADE_OF_JUDGES.values():
        _remove_keys(getattr(opened, made.field))
    return opened


def _remove_keys(parts: dict[str, Any]) -> None:
    for fields in parts.values():
        fields["judge_api_key"] = "none"
        for made in MADE_OF_JUDGES.values():
            _remove_keys(fields.get(made.field, {}))


async def replay_run(members: Sequence[RecordedJudge], settings: ScoreSettings, out: Path) -> EvaluationResult:
    """Judge the data as the settings say, from the members' runs, into a file with its run beside it.

    Raises:
        UserError: the data cannot be read, a call is not recorded, or the output exists.
    """
    data = settings.data or ""
    check_out(out, data=data)
    check_unused(run_directory_of(out), OUT)
    if out.exists():  # noqa: ASYNC240  # nothing runs yet that could wait
        raise SettingsError(f"--out: {out} exists; name another file, or remove this one")
    run = ScoreRun(without_keys(settings), data, out, ScoreClients(open_client(members, settings)))
    run.settings = settings.model_copy(update={"out": out})
    with terminal.ProgressDisplay("replay", "responses") as display:
        return await run.run(display)
