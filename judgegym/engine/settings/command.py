"""The settings of an environment's command line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product
from pathlib import Path
from typing import ClassVar, Generic

from pydantic import BaseModel
from pydantic_settings import CliImplicitFlag
from typing_extensions import Self

from judgegym.engine.settings.env import ConfigT, dump_public
from judgegym.engine.settings.plan import PLAN_HELP, PlanTokens
from judgegym.engine.settings.policy import PolicySettings
from judgegym.engine.settings.verbs import EVALUATE, Verb, uses
from judgegym.judges.config.budgets import BUDGETS
from judgegym.judges.config.fields import declared_settings, setting
from judgegym.judges.config.sources import SourcedSettings
from judgegym.judges.scorers.own_kinds import CODE_SETTINGS
from judgegym.llm import wire
from judgegym.llm.wire import JSON


class EnvSettings(SourcedSettings, Generic[ConfigT]):
    """The settings of a command: environment, policy, and the command's own flags."""

    help_group: ClassVar[str] = "run"

    openai: PolicySettings
    env: ConfigT
    config: Path | None = setting(None, common=True)
    """Read settings from this YAML file, with sections `env` and `openai`, or from the preset of
    this name (`judgegym list` shows them)."""
    limit: int | None = setting(None, verbs=("evaluate", "process"), common=True, ge=1)
    """Take at most this many rows, sampled with the seed."""
    resume: CliImplicitFlag[bool] = setting(False, common=True)
    """Continue the run in env.data_dir_to_save_evals (evaluate, serve) or that of
    env.data_path_to_save_groups (process, serve): only calls without a recorded response are made.
    serve continues at the trainer's step."""
    retry_failed: CliImplicitFlag[bool] = setting(False, verbs=EVALUATE)
    """With --resume: judge only the rows that failed. Rows that were not judged yet, or whose data
    has changed, stay as they are, and metrics are written only if there are none."""
    plan: PlanTokens = setting(None, PLAN_HELP, common=True)
    labels: Path | None = setting(None, verbs=EVALUATE)
    """Correct the result by human labels of this run's responses in this file (judgegym label makes
    it); with --resume also for a complete run."""
    anchors: Path | None = setting(None, verbs=EVALUATE)
    """Also judge the rows of this JSONL file (prompt, response, further fields for the judge,
    label), and report whether the judge has changed since the first run with this file, by
    FILE.state.jsonl beside it."""
    all_metrics: CliImplicitFlag[bool] = setting(False, verbs=("evaluate", "process"), common=True)
    """Also print all metrics; metrics.json has them in any case."""
    keep_calls: CliImplicitFlag[bool] = setting(True)
    """Keep the prompts and responses of policy and judge in calls.jsonl.gz of the run. False:
    record no prompts, and keep responses only until the run is complete. serve keeps the calls of
    its rollouts only if this is given, else the responses of a group until it is done."""
    offline: CliImplicitFlag[bool] = setting(False, common=True)
    """Use local stand-ins for all endpoints that the command line itself does not name (those of
    files and environment variables are overridden), and the bundled samples; needs no key or
    network."""

    _stand_ins: frozenset[str] = frozenset()
    _verb: Verb = "evaluate"

    def select_verb(self, verb: Verb) -> Self:
        """Return a copy of the settings for a verb; the default is `evaluate`."""
        settings = self.model_copy()
        settings._verb = verb
        return settings

    @property
    def verb(self) -> Verb:
        """The verb of these settings."""
        return self._verb

    @property
    def keeps_rollout_calls(self) -> bool:
        """Whether `serve` keeps the calls of all groups; training makes too many by default."""
        return self.keep_calls and "keep_calls" in self.model_fields_set

    @property
    def tokenizer(self) -> str:
        """The name of the policy's tokenizer: the given one, or the policy's own name."""
        return self.env.tokenizer_name or self.openai.model_name

    def use_stand_ins(self, roles: Sequence[str], *, env: ConfigT, openai: PolicySettings) -> Self:
        """Return a copy in which `roles` (of `stand_ins`) are stand-ins with their URLs."""
        settings = self.model_copy(update={"env": env, "openai": openai})
        settings._stand_ins = frozenset(roles)
        return settings

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """The roles among `judge`, `policy` and `user` that are offline stand-ins."""
        return tuple(sorted(self._stand_ins))

    def public(self) -> dict[str, JSON]:
        """Return the content of `config.yaml`: the verb's settings without secrets.

        It has the form that `--config` reads. Two things are left out: the URL of a stand-in, which
        ends with its run; and the default name of a key's variable, because a key whose variable is
        named in a file may be sent to any host.
        """
        env, openai = self._section(self.env), self._section(self.openai)
        variables = ((self.env, env, "judge_api_key_env"), (self.env, env, "user_api_key_env"))
        for model, section, name in (*variables, (self.openai, openai, "api_key_env")):
            if name not in model.model_fields_set:
                section.pop(name, None)
        if "user" in self._stand_ins or not self.env.users:
            env.pop("user_base_url", None)
        if "judge" in self._stand_ins or self.env.policy_is_judge or not self.env.asks_endpoint:
            del env["judge_base_url"]
        if not self.env.asks_endpoint:  # who reads the file has a name for the judge
            env["judge_model_name"] = self.env.judge_name()
        if "policy" in self._stand_ins:
            del openai["base_url"]
        sections: dict[str, JSON] = {"env": env, "openai": openai}
        if uses(self._verb, type(self), "limit"):
            sections["limit"] = self.limit
        if self._verb != "serve" or self.keeps_rollout_calls or not self.keep_calls:
            sections["keep_calls"] = self.keep_calls
        if self.offline:
            sections |= {"offline": True, "faults": dict(self.faults)}
        return sections

    def _section(self, section: BaseModel) -> dict[str, JSON]:
        public = dump_public(section)
        names = [name for name in public if name not in BUDGETS]
        return {name: public[name] for name in names if uses(self._verb, type(section), name)}

    def matters(self, verb: Verb = "evaluate") -> dict[str, JSON]:
        """Return the settings that determine a verb's results; a resumed run cannot change them."""
        public = self.public()
        shaping = [
            declared
            for declared in declared_settings(type(self.env), verb=verb)
            if not declared.is_operational
        ]
        idle = self.env.ignored  # once: some environments look at all settings for it
        names = [f"env.{entry.name}" for entry in shaping if entry.name not in idle]
        names += [f"openai.{name}" for name in ("model_name", "extra_body")]
        expanded = chain.from_iterable(_expand_name(self.env, name) for name in names)
        gold = _digest_gold_judge(public)
        return {
            **{name: wire.lookup(public, name) for name in expanded},
            **gold,
            "limit": self.limit,
        }

    def defaults(self, verb: Verb = "evaluate") -> dict[str, JSON]:
        """Return the defaults of the environment's settings in `matters`.

        A run from before a setting existed behaved as with its default.
        """
        public = self.model_copy(update={"env": type(self.env).make_defaults()}).public()
        usual = {
            name: wire.lookup(public, name)
            for name in self.matters(verb)
            if name.startswith("env.")
        }
        return {
            **usual,
            **_digest_gold_judge(self.public()),
        }  # a run may get a gold judge when it is resumed


def _digest_gold_judge(public: JSON) -> dict[str, JSON]:
    """Return the digest or package of a gold judge that is not built in, by dotted name."""
    names = [f"env.gold_judge.{name}" for name in sorted(CODE_SETTINGS)]
    return {name: code for name in names if (code := wire.lookup(public, name)) is not None}


def _expand_name(env: BaseModel, name: str) -> list[str]:
    """Return a setting's name; for a list of models, the names of their decisive settings."""
    models = None
    if name.startswith("env."):
        models = getattr(env, name.removeprefix("env."), None)
    if not isinstance(models, list) or not any(isinstance(model, BaseModel) for model in models):
        return [name]
    shaping = [
        declared.name
        for declared in declared_settings(type(models[0]))
        if not declared.is_operational
    ]
    # One place more than the list has, so that a longer list differs from this one.
    return [f"{name}.{index}.{field}" for index, field in product(range(len(models) + 1), shaping)]
