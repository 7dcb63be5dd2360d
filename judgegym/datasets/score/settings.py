"""The settings of `judgegym score`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, cast

from pydantic_settings import CliImplicitFlag

from judgegym.datasets.files.shards import ShardSetting
from judgegym.datasets.rows.schema import ColumnSettings
from judgegym.datasets.rows.task import DatasetJudgeSettings
from judgegym.datasets.sample import SampleSettings, list_policy_settings
from judgegym.engine.settings.env import dump_public
from judgegym.engine.settings.plan import PLAN_HELP, PlanTokens
from judgegym.engine.settings.policy import STAND_IN_JUDGE
from judgegym.judges.config.batches import JudgeBatchSettings
from judgegym.judges.config.budgets import BUDGETS, BudgetSettings
from judgegym.judges.config.fields import declared_settings, operational, setting
from judgegym.judges.config.sources import SourcedSettings
from judgegym.llm.wire import JSON

_KEY_VARIABLE = "judge_api_key_env"
OUT = "--out"
"""The setting that names the output, for messages."""


class RowsRunSettings(BudgetSettings, SourcedSettings):
    """Settings of a run that judges the rows of a data set: its input, and when it ends."""

    help_group: ClassVar[str] = "run"

    data: str | None = operational(None, group="data")
    """Judge the rows of this JSONL, JSON, CSV, TSV or Parquet file (also .gz), of a pattern's
    files, of JSON on standard input (-), or of a data set of the Hugging Face hub; usually the
    first word of the command."""
    limit: int | None = operational(None, group="data", ge=1)
    """Judge at most this many rows, the first ones, to try; FILE has these alone. --resume with
    more, or without, goes on with the others."""
    on_bad_row: Literal["fail", "skip"] = operational("fail", group="data")
    """What to do if rows cannot be judged (no response, an image, a line that is no JSON). fail:
    judge nothing, and name them. skip: judge the others; FILE has these rows without a score,
    with the status bad_row, and FILE's quarantine.jsonl has row, column and reason of each."""
    config: Path | None = operational(None)
    """Read settings from this YAML file."""
    resume: CliImplicitFlag[bool] = operational(False)
    """Continue the run of this FILE: ask only for what was not answered. Rows that failed are
    judged again."""
    keep_calls: CliImplicitFlag[bool] = operational(True)
    """Keep what the judge was asked and what it answered, in calls.jsonl.gz of the run. False:
    record no prompts, and the answers only until the run is complete."""
    max_judge_error_rate: float = operational(0.05, ge=0, le=1, common=True)
    """End with exit code 1 if more than this share of the responses has no score."""
    plan: PlanTokens = operational(None, PLAN_HELP)
    offline: CliImplicitFlag[bool] = setting(False)
    """Use local stand-ins for judge and policy; they need no key or network, and their scores
    mean nothing."""


class ScoreRunSettings(RowsRunSettings):
    """Further settings of a run of `judgegym score`: its input and output."""

    help_group: ClassVar[str] = "run"

    out: Path | None = operational(None, group="data")
    """Write the judged rows to this file, .parquet or .jsonl. Calls, metrics and a page are kept
    beside it, in a folder with the ending .run."""
    rescore: CliImplicitFlag[bool] = setting(False, group="data")
    """Judge a file again that this command has written, and replace its judge/… columns. If a
    policy was asked for the responses, those in policy/response are judged."""
    gold_column: str | None = setting(None, group="data")
    """Compare the judge with the gold label of each response in this column: a number on the
    judge's scale, a text (yes, no, or the judge's label), or an object of aspects' names and 1
    or 0; a list for several responses. The judge is not shown it; judgegym report and compare
    --gold show how far it agrees."""
    labels: Path | None = operational(None, group="data")
    """Correct the mean score by people's labels of this run's responses in this file, which
    judgegym label writes. With --resume, a complete run is corrected too."""
    card: Path | None = operational(None, group="data")
    """Add the judge's noise to this card, the judge's file: how far judgments of the same row
    differ, which --repeat_column makes independent."""
    shard: ShardSetting | None = operational(None)
    """Judge one of N parts of the data, such as 3/16; FILE gets its number
    (scored-00003-of-00016.parquet). --merge N joins them."""
    merge: int | None = operational(None, ge=1)
    """Join the N shards of FILE into it, and their runs into one, whose settings count. No judge
    is asked."""
    anchors: Path | None = operational(None)
    """Judge the rows of this JSONL file (prompt, response, and what else the judge is shown;
    label), too, and tell whether the judge has changed since the first run with this file, by
    FILE.state.jsonl beside it."""
    ray: str | None = operational(None)
    """Judge in actors of Ray, on this cluster: local (also without a word) begins one on this
    machine and ends it with the run; auto, or an address, connects to one. If unset, in this
    process."""
    ray_actors: int = operational(2, ge=1)
    """With --ray: judge in so many actors, which share the judge's limits in equal parts."""
    write_report: CliImplicitFlag[bool] = operational(False)
    """Write the page of the run at its end, for a browser: report.html in its folder. `judgegym
    report FILE` writes it at any time; for 100,000 responses that takes several seconds."""


class ScoreSettings(
    JudgeBatchSettings, DatasetJudgeSettings, SampleSettings, ColumnSettings, ScoreRunSettings
):
    """All settings of the command, under one set of names."""

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """The roles (`judge`, `policy`) that are stand-ins."""
        if not self.offline:
            return ()
        roles = (("judge", self.asks_endpoint), ("policy", self.responses_per_prompt is not None))
        return tuple(role for role, is_asked in roles if is_asked)

    @property
    def judged_by(self) -> str:
        """The judge's name in results: its own, or the stand-in's."""
        if "judge" in self.stand_ins:
            return STAND_IN_JUDGE
        return self.judge_name()

    def public(self) -> dict[str, JSON]:
        """Return the settings for `config.yaml`: without secrets, as `--config` reads them.

        Budgets are left out, because they belong to one command: resuming sets a new one. The
        default name of the key's variable is left out, because a file that names the variable could
        send the key to any host.
        """
        public_settings = dump_public(self)
        if _KEY_VARIABLE not in self.model_fields_set:
            del public_settings[_KEY_VARIABLE]
        for name in (
            "config",
            "show_config",
            "profile",
            "trace",
            "resume",
            "plan",
            "merge",
            "labels",
            *BUDGETS,
        ):
            del public_settings[name]
        if not self.asks_endpoint:  # readers of the file need a name for the judge
            del public_settings["judge_base_url"]
            public_settings["judge_model_name"] = self.judge_name()
        if self.responses_per_prompt is None:
            public_settings = {
                name: value
                for name, value in public_settings.items()
                if name not in list_policy_settings()
            }
        return {**public_settings, **self.policy_settings}

    def defaults(self) -> dict[str, JSON]:
        """Return the defaults of the settings: the behaviour of runs before a setting existed."""
        return {
            declared.name: cast(JSON, declared.default)
            for declared in declared_settings(type(self))
        }

    def matters(self) -> dict[str, JSON]:
        """Return the settings that determine the results; a resumed run cannot change them."""
        shaping = {
            declared.name
            for declared in declared_settings(type(self))
            if not declared.is_operational
        }
        determining = {name: value for name, value in self.public().items() if name in shaping}
        return {**determining, **self.policy_matters()}
