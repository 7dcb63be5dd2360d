"""Recorded runs as members of juries and cascades: names, judge settings, presets, replayed runs.

A member is judged with the settings in its run's `config.yaml`, by the code of `judgegym score`, so
the samples are those of a live run of that jury or cascade.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from judgegym.datasets.score.clients import ScoreClients
from judgegym.datasets.score.command import resolve_paths
from judgegym.datasets.score.run import ScoreRun
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine import terminal
from judgegym.engine.settings.policy import STAND_IN_JUDGE
from judgegym.environments.evaluate.evaluation import EvaluationResult
from judgegym.judges.config.composed import expand_choices
from judgegym.judges.config.endpoint import NO_ENDPOINT, STAND_IN_IDENTITY
from judgegym.judges.config.explaining import read_text_or_file
from judgegym.judges.config.fields import declared_settings
from judgegym.judges.config.presets import load_yaml
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.core.naming import refuse_unknown, slug
from judgegym.judges.parts.jury import JurySettings
from judgegym.judges.scorers.own_kinds import is_python_name
from judgegym.judges.scorers.registry import (
    JUDGES,
    built_in_kind,
    find_definition,
    is_kind,
    reads_setting,
)
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.errors import SettingsError
from judgegym.llm.types import ChatSettings, Endpoint
from judgegym.llm.wire import JSON, text_or_empty
from judgegym.reports.document import write_file
from judgegym.reports.results.run import SavedRun
from judgegym_trials.replay.recordings import RecordedAnswers, ReplayClient

_PARTS_SETTINGS = [judge.parts.setting for judge in JUDGES.values() if judge.parts is not None]
"""Settings that hold judges."""
_SHARED_SETTINGS = {"judge", "judge_cache", "judge_extra_headers", "judge_api_key", "seed"}
_DATA = {setting.name for setting in declared_settings(ScoreSettings) if setting.group == "data"}
_DATA -= {"out", "labels", "config", "data"}  # the name may be another run's model name


@dataclass(frozen=True)
class RecordedJudge:
    """A recorded run.

    Attributes:
        name: its name as a member of a jury or a cascade.
        run: its directory.
        is_judge: whether it can be replayed: a run of `judgegym score` whose judge sees each
            response alone.
    """

    name: str
    run: SavedRun

    @property
    def is_judge(self) -> bool:
        """Whether a jury or a cascade can contain its judge.

        Reading a run executes no file that it names.
        """
        kind = text_or_empty(self.run.config.get("judge"))
        if not self.run.is_scored or is_python_name(kind) or not is_kind(kind):
            return False
        return find_definition(kind).most_together is None

    def fields(self) -> dict[str, JSON]:
        """Return its judge's settings that differ from their defaults."""
        config = self.run.config
        kind = text_or_empty(self.run.config["judge"])
        settings = AnyJudgeSettings.add_choices([f"judge={kind}"]).model_construct()
        usual = settings.model_dump(mode="json", exclude=_SHARED_SETTINGS)
        names = [name for name in sorted(config.keys() & usual) if reads_setting(kind, name)]
        return {
            "judge": kind,
            **{name: config[name] for name in names if config[name] != usual[name]},
        }


def _parts_setting(kind: str) -> str:
    """Return the setting that holds a jury's members or a cascade's judges."""
    parts = JUDGES[kind].parts
    assert parts is not None, kind
    return parts.setting


def open_members(words: Sequence[str]) -> list[RecordedJudge]:
    """Open runs, each given as RUN or NAME=RUN.

    A run without a name is named after its judge's model, or after its folder if several have the
    same model.

    Raises:
        RunDirectoryError: a run does not exist or is incomplete.
        SettingsError: two runs have the same name, or there is only one run.
    """
    named_words = [
        ("", word) if Path(word).exists() or "=" not in word else word.split("=", 1)
        for word in words
    ]
    runs = [(name, SavedRun.open(Path(word))) for name, word in named_words]
    models = [text_or_empty(run.config.get("judge_model_name")) or run.judge for _, run in runs]
    members = []
    for (name, run), model in zip(runs, models, strict=True):
        if not run.is_complete:
            raise SettingsError(f"{run.path}: the run is not complete; finish it with --resume")
        if not name and model and models.count(model) == 1:
            name = model
        members.append(RecordedJudge(name or run.path.resolve().name.removesuffix(".run"), run))
    same = [
        name
        for name, count in Counter(slug(member.name) for member in members).items()
        if count > 1
    ]
    if same:
        raise SettingsError(f"two runs are called {same[0]}; name them: NAME=RUN")
    return members


def check_two_runs(runs: Sequence[str], place: str = "") -> None:
    """Check that there are two runs, as a cascade needs; `place` is the beginning of the message.

    Raises:
        SettingsError: there are more or fewer.
    """
    count = len(runs)
    if count != 2:
        raise SettingsError(f"{place}expected two runs, the cheap one first, found {count}")


def judge_settings(
    members: Sequence[RecordedJudge], kind: str, rules: Mapping[str, object]
) -> dict[str, object]:
    """Return the settings of a jury or a cascade of these members.

    Raises:
        SettingsError: a member's judge cannot be part of a jury or cascade.
    """
    for member in members:
        kind_name = text_or_empty(member.run.config.get("judge"))
        if is_python_name(kind_name):
            raise SettingsError(
                f"{member.run.path}: a replay never runs a file that a run names, and its judge is "
                f"{kind_name}"
            )
        if not member.is_judge:
            raise SettingsError(
                f"{member.run.path}: a run of judgegym score, whose judge sees each response by "
                "itself, can be a member; this one is of "
                f"{member.run.environment or 'an unknown command'}, and takes part in tables"
            )
    seeds = [member.run.config.get("seed", 0) for member in members]
    parts = {member.name: member.fields() for member in members}
    if len({*map(str, seeds)}) > 1:
        parts = {
            name: {**part, "seed": seed}
            for (name, part), seed in zip(parts.items(), seeds, strict=True)
        }
    return {"judge": kind, "seed": seeds[0], **rules, _parts_setting(kind): parts}


def replay_settings(
    members: Sequence[RecordedJudge], judge: Mapping[str, object], data: str | None
) -> ScoreSettings:
    """Return settings of `judgegym score` for a jury or cascade of these members, on their data.

    Args:
        members: the runs.
        judge: the result of `judge_settings`.
        data: the data's current place; by default unchanged.

    Raises:
        SettingsError: the runs judged different data, or a setting is wrong.
    """
    configs = [member.run.config for member in members]
    first, *others = [
        {name: config[name] for name in sorted(_DATA & config.keys())} for config in configs
    ]
    for member, other_config in zip(members[1:], others, strict=True):
        differing = [name for name in first if first[name] != other_config.get(name)]
        if differing:
            name = differing[0]
            value = other_config.get(name)
            raise SettingsError(
                f"{member.run.path}: its {name} is {value!r}, and that of {members[0].run.path} is "
                f"{first[name]!r}; expected runs on the same data"
            )
    if configs[0].get("responses_per_prompt") is not None:
        raise SettingsError(
            f"{members[0].run.path}: its responses were sampled; judge them with score --rescore, "
            "and replay those runs"
        )
    if len({bool(config.get("offline")) for config in configs}) > 1:
        raise SettingsError(
            "some of these runs are of stand-ins (--offline), and others of real judges"
        )
    fixed = {
        "offline": bool(configs[0].get("offline")),
        "write_report": False,
        "data": data or configs[0].get("data"),
    }
    return settings_from_keywords(ScoreSettings, {**first, **fixed, **judge})


def open_scoring(members: Sequence[RecordedJudge], settings: ScoreSettings, out: Path) -> ScoreRun:
    """Open a run of `judgegym score` into a file.

    Its judges answer from the members' runs and need no keys.

    Raises:
        DataError: the data cannot be read, or a run has no ledger.
    """
    recorded = {member.name: RecordedAnswers(member.run.path) for member in members}
    stand_in, identity = "", ""
    if settings.offline:
        stand_in, identity = STAND_IN_JUDGE, STAND_IN_IDENTITY
    client = ReplayClient(
        recorded, ChatSettings((Endpoint(NO_ENDPOINT, stand_in),), identity=identity)
    )
    opened = settings.model_copy(deep=True)
    for name in _PARTS_SETTINGS:
        _remove_keys(getattr(opened, name, {}))
    return ScoreRun(opened, settings.data or "", out, ScoreClients(client))


def _remove_keys(parts: Mapping[str, Any]) -> None:
    for fields in parts.values():
        fields["judge_api_key"] = "none"
        for name in _PARTS_SETTINGS:
            _remove_keys(fields.get(name, {}))


async def replay_run(
    members: Sequence[RecordedJudge], settings: ScoreSettings, out: Path
) -> EvaluationResult:
    """Judge the data from the members' runs, into a file with its run beside it.

    Raises:
        UserError: the data cannot be read, a call is not recorded, or the output exists.
    """
    settings = settings.model_copy(update={"out": out})
    resolve_paths(settings)  # opening checks that files can be read and written
    run = open_scoring(members, settings, out)
    run.settings = settings
    with terminal.ProgressDisplay("replay", "responses") as display:
        return await run.run(display)


def is_preset(out: Path) -> bool:
    """Return whether `--out` names a preset, not a file of judged rows."""
    return out.suffix in (".yaml", ".yml")


def check_preset(members: Sequence[RecordedJudge], kind: str, out: Path) -> None:
    """Check that the preset of a jury or cascade of these members can be written.

    Raises:
        SettingsError: one has no judge that can be a member, or the file exists.
    """
    judge_settings(members, kind, {})
    if out.exists():
        raise SettingsError(
            f"--out: {out} exists, and is not overwritten; name another file, or remove this one"
        )


def check_out(members: Sequence[RecordedJudge], kind: str, out: Path, data: str | None) -> None:
    """Check that the output of `judgegym replay` can be written.

    It is a preset, or the data as these members judge it.

    Raises:
        UserError: it cannot be written, or exists.
    """
    if is_preset(out):
        check_preset(members, kind, out)
    else:
        settings = replay_settings(members, judge_settings(members, kind, {}), data)
        resolve_paths(settings.model_copy(update={"out": out}))


def write_preset(path: Path, judge: Mapping[str, object], summary: str) -> None:
    """Write a judge's settings for `--config` of `judgegym score` and `evaluate prompts`.

    Args:
        path: the file.
        judge: the judge's settings.
        summary: the measured result, as a comment.
    """
    lines = "".join(f"# {line}\n" for line in summary.splitlines())
    body = yaml.safe_dump({"env": dict(judge)}, sort_keys=False, allow_unicode=True, width=110)
    write_file(path, f"{lines}\n{body}".encode())


def read_rules(word: str, kind: str) -> tuple[dict[str, JSON], list[str]]:
    """Read the rules of a jury or cascade and its members' names.

    They are in `@FILE`, or the name of a rule.

    Args:
        word: `@settings.yaml`, or a rule of juries or of confidence.
        kind: the kind of the judge: jury or cascade.

    Raises:
        SettingsError: the file holds no settings, or unknown ones.
    """
    if not word.startswith("@"):
        if kind == built_in_kind(JurySettings):
            return {"jury_rule": word}, []
        return {"cascade_confidence": word}, []
    try:
        read: Any = load_yaml(str(read_text_or_file(word)).encode())
    except (OSError, ValueError) as error:
        raise SettingsError(f"--{kind} {word}: {error}") from None
    if not isinstance(read, dict):
        raise SettingsError(f"--{kind} {word}: expected settings by name")
    rules = read.get("env", read)
    if not isinstance(rules, dict):
        raise SettingsError(f"--{kind} {word}: env: expected settings by name")
    if rules is read:
        fields = expand_choices(ScoreSettings).model_fields
        of_kind = [*(name for name in fields if name.startswith(f"{kind}_")), _parts_setting(kind)]
        unknown = [name for name in map(str, rules) if name.partition(".")[0] not in fields]
        refuse_unknown(unknown, of_kind, prefix=f"--{kind} {word}: ")
    names = rules.get(_parts_setting(kind)) or {}
    return {name: value for name, value in rules.items() if name.startswith(f"{kind}_")}, list(
        names
    )
