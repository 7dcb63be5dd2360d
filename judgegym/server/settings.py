"""Settings of the reward server: its address, its clients' access, and the judges that it serves.

`--for TRAINER` sets deadlines below the time limit of that trainer's client, and reports failures
in a form that it reads. It is a default: the command line, the environment and the YAML file
override it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, SecretStr, create_model
from pydantic_settings import CliImplicitFlag, NoDecode

from judgegym.judges.config.budgets import BUDGETS, BudgetSettings
from judgegym.judges.config.fields import Values, setting
from judgegym.judges.config.sources import SettingsSource, SourcedSettings, settings_from_keywords
from judgegym.judges.scorers.own_kinds import CODE_SETTINGS
from judgegym.judges.scorers.registry import COMPARING_KINDS
from judgegym.judges.scorers.sections import flat_settings
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm import wire
from judgegym.llm.errors import SettingsError
from judgegym.llm.urls import is_loopback
from judgegym.monitoring.settings import MonitorSettings
from judgegym.server.answers import FailureAnswers, OnFailure
from judgegym.server.budgets import ClientBudget, ServerBudgets

Trainer = Literal["nemo_gym", "openrlhf", "slime", "verl", "trl", "verifiers"]
FLAG = "for"
_DEADLINE_S = 100.0


def _preset(
    deadline: float,
    judge_deadline: float,
    judge_timeout: float,
    on_failure: OnFailure = "sidecar",
    max_body_mb: float = 8.0,
) -> Values:
    """Return the settings that a trainer's client needs, so that no judge call outlasts its caller.

    Args:
        deadline: seconds within which each request gets its response, unless it brings its own
            deadline.
        judge_deadline: seconds for a judge call with its retries; less than `deadline`, so that the
            reason of a failure arrives in time.
        judge_timeout: seconds for one attempt of a call; less than `judge_deadline`, so that a
            hanging attempt is retried.
        on_failure: how the trainer learns of a failed judge.
        max_body_mb: limit of a body's size; NeMo Gym's rollouts hold token ids and logprobs.
    """
    return {
        "deadline": deadline,
        **dict.fromkeys(("judge_deadline", "endpoint_away_deadline"), judge_deadline),
        "judge_timeout": judge_timeout,
        "on_failure": on_failure,
        "max_body_mb": max_body_mb,
    }


PRESETS: Mapping[Trainer, Values] = {
    # its client has no limit
    "nemo_gym": _preset(
        deadline=900.0, judge_deadline=840.0, judge_timeout=300.0, max_body_mb=64.0
    ),
    "openrlhf": _preset(deadline=150.0, judge_deadline=140.0, judge_timeout=90.0),  # 180 s, 5 tries
    "slime": _preset(deadline=100.0, judge_deadline=90.0, judge_timeout=60.0),  # 120 s, 10 tries
    "verl": _preset(
        deadline=140.0, judge_deadline=130.0, judge_timeout=90.0
    ),  # 150 s of `compute_score`
    "trl": _preset(
        deadline=140.0, judge_deadline=130.0, judge_timeout=90.0
    ),  # 150 s of `judge_reward`
    # 60 s
    "verifiers": _preset(
        deadline=50.0, judge_deadline=45.0, judge_timeout=30.0, on_failure="http", max_body_mb=64.0
    ),
}


def shorten_deadline(deadline: float) -> Values:
    """Return a deadline of judge calls below `deadline`; a failure's reason then comes in time."""
    return {"judge_deadline": 0.9 * deadline}


def add_preset(sources: list[SettingsSource]) -> list[SettingsSource]:
    """Append the preset that the sources name, and the settings that follow from the deadline.

    Unknown names and deadlines that are no numbers are left for the sources to report. If the user
    sets a shorter deadline than the preset's, that bounds the judge's calls instead of the preset.
    """
    extended = list(sources)
    trainer = next((source.values[FLAG] for source in sources if FLAG in source.values), None)
    requested = next(
        (source.values["deadline"] for source in sources if "deadline" in source.values), None
    )
    try:
        deadline = _DEADLINE_S
        if requested is not None:
            deadline = float(str(requested))
    except ValueError:
        return extended
    limits = SettingsSource("below --deadline", shorten_deadline(deadline))
    for name, preset in PRESETS.items():
        if name == trainer:
            usual_deadline = float(str(preset["deadline"]))
            if requested is not None and deadline < usual_deadline:
                extended.append(limits)
            extended.append(SettingsSource(f"--{FLAG} {name}", preset))
    return [*extended, limits]


class JudgeMount(AnyJudgeSettings):
    """A judge of the server: its kind, its settings, and the gathering of single responses."""

    how_to_gather: ClassVar[str] = "a server with --group_size gathers single ones"

    group_size: int | None = setting(None, ge=2, common=True)
    """Gather responses to one prompt that arrive in separate requests, and judge them together once
    there are this many (judges listwise, tournament, arena_hard, choice). If unset, only responses
    of one request are compared.
    """
    group_wait: float | None = setting(None, gt=0)
    """With --group_size: after this many seconds judge the responses that have arrived; later ones
    are flagged as failed. The judge has the rest of the deadline. If unset, half of --deadline.
    """

    def cohort_limits(self, deadline_s: float, prefix: str = "") -> tuple[int, float] | None:
        """Return a cohort's size and its longest wait in seconds; `None` if nothing is gathered.

        Args:
            deadline_s: seconds within which each response must have a result.
            prefix: prefix of setting names in errors.

        Raises:
            SettingsError: the judge sees each response alone or compares fewer, or the wait leaves
                no time for judging.
        """
        if self.group_size is None and self.group_wait is not None:
            raise SettingsError(
                f"{prefix}group_wait: nothing is gathered without {prefix}group_size"
            )
        if self.group_size is None:
            return None
        most = self.definition.most_together
        if most is None:
            kinds = ", ".join(COMPARING_KINDS)
            raise SettingsError(
                f"{prefix}group_size: the judge {self.judge} sees each response alone; those that "
                f"compare responses are {kinds}"
            )
        if self.group_size > most:
            raise SettingsError(
                f"{prefix}group_size: the judge {self.judge} compares at most {most} responses, "
                f"found {self.group_size}"
            )
        wait_s = deadline_s / 2 if self.group_wait is None else self.group_wait
        if wait_s >= deadline_s:
            raise SettingsError(
                f"{prefix}group_wait: expected less than the deadline of {deadline_s:g} s, since "
                f"the judge needs the rest; found {wait_s:g}"
            )
        return self.group_size, wait_s

    @property
    def gathers(self) -> bool:
        """Whether single responses are gathered."""
        return self.group_size is not None


_SENDS_ONE: Sequence[Trainer] = ("openrlhf",)
"""Trainers that can send only single responses without a baseline."""
_GATHERING = ("group_size", "group_wait")
_NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
RESERVED = frozenset(
    {"v1", "get_reward", "slime", "verify", "metrics", "healthz", "readyz", "openapi", "token"}
)


def _from_json(value: object) -> object:
    if isinstance(value, str):
        return wire.loads(value)
    return value


def _hide_keys(mounts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Wrap the mounts' API keys and headers in `SecretStr`, so that no dump shows them."""
    return {name: _hide_values(values) for name, values in mounts.items()}


def _hide_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Wrap the secrets of one mount and of its sections."""
    hidden: dict[str, Any] = {}
    for name, value in values.items():
        if str(name).endswith("api_key") and isinstance(value, str):
            hidden[name] = SecretStr(value)
        elif str(name).endswith("extra_headers") and isinstance(value, Mapping):
            hidden[name] = {
                key: SecretStr(header) if isinstance(header, str) else header
                for key, header in value.items()
            }
        else:  # a secret of a member is refused, where the mounts are read
            is_section = isinstance(value, Mapping) and name in ("judge", "endpoint")
            hidden[name] = _hide_values(value) if is_section else value
    return hidden


Mounts = Annotated[
    dict[str, dict[str, Any]], NoDecode, BeforeValidator(_from_json), AfterValidator(_hide_keys)
]


if TYPE_CHECKING:

    class _ForTrainer(BaseModel):
        """Has the field `for`."""
else:  # `for` is a keyword: a class body cannot declare it
    _ForTrainer = create_model(
        "_ForTrainer",
        **{
            FLAG: (
                Trainer | None,
                setting(
                    None,
                    "Set deadlines below this trainer's own time limit, and report failures in a "
                    "form that it reads. All other sources of settings override this preset.",
                    common=True,
                    group="server",
                ),
            )
        },
    )


class WatchSettings(MonitorSettings):
    """Settings of the monitors of a process's judges, and of the folder that they write to."""

    run_dir: Path | None = setting(None, common=True)
    """Watch the responses of all trainers, and write the monitors' results to this folder:
    monitor.jsonl and live.jsonl, which judgegym view shows during training. Needs one worker.
    """

    @property
    def is_watched(self) -> bool:
        """Whether there are monitors: with a folder to write to, or with a gold judge."""
        return self.run_dir is not None or bool(self.gold_judge)


class RewardServerSettings(_ForTrainer, SourcedSettings, WatchSettings, BudgetSettings, JudgeMount):
    """All settings of `python -m judgegym.server`."""

    help_group: ClassVar[str] = "server"
    _mounted: dict[str, JudgeMount] | None = None

    config: Path | None = setting(None, common=True)
    """Read settings from this YAML file, or from the preset of this name: reward_server_rubric,
    reward_server_group.
    """
    offline: CliImplicitFlag[bool] = setting(False, common=True)
    """Use a local stand-in as the judge, to try the server without a key or network."""
    mounts: Mounts = setting({})
    """Serve further judges by name: {"safety": {"judge": "aspect", "aspects": ["harmfulness"]}} is
    served under /safety/…. A mount inherits the settings that it leaves out from the first judge;
    but keys, headers and model only for the same base URL, and prices, limits and judge_extra_body
    only for the same model.
    """
    host: str = setting("127.0.0.1", common=True)
    """Listen on this address; any address but loopback needs tokens."""
    port: int = setting(8400, common=True, ge=0, le=65535)
    """Listen on this port; 0 takes a free one."""
    workers: int = setting(1, common=True, ge=1)
    """Start this many processes that share the port; one is enough unless HTTP keeps a core busy.
    """
    tokens: Annotated[dict[str, SecretStr], NoDecode, BeforeValidator(_from_json)] = setting(
        {}, common=True
    )
    """Accept only requests with one of these bearer tokens, by client name: {"trainer-a": "…"}. Set
    them in JUDGEGYM_TOKENS or the YAML file, which keeps them off the command line.
    """
    client_budgets: Annotated[dict[str, ClientBudget], NoDecode, BeforeValidator(_from_json)] = (
        setting({})
    )
    """Limit what is spent for a client, by its token's name, in calls or US dollars; * stands for
    every other client: {"trainer-a": {"usd": 20}, "*": {"calls": 1000}}. Responses beyond the
    budget have the status budget_spent and no score. budget_calls and budget_usd limit all clients
    together. Budgets need one worker, and start at zero when it starts.
    """
    insecure: CliImplicitFlag[bool] = setting(False)
    """Serve without tokens on any address."""
    deadline: float = setting(_DEADLINE_S, gt=0)
    """Respond within this many seconds, or those of the request's header X-Request-Deadline.
    Responses that the judge has had for that long are flagged as failed; a request whose judgment
    waits for the concurrency limit (--judge_max_concurrency) gets HTTP 503 with Retry-After, keeps
    its place in the queue, and finds the result when it is repeated. --judge_deadline, unless it is
    set, is nine tenths of it, so that the reason of a failure arrives in time.
    """
    fallback_score: float = setting(0.0, allow_inf_nan=False)
    """Send this score if the judge fails: to NeMo Gym beside a mask, if no other reward of the
    group is known; to OpenRLHF and slime with on_failure=score.
    """
    invalid_completion_score: float = setting(0.0, allow_inf_nan=False)
    """Send this score for an empty completion, which is not judged, in protocols that need a number
    (OpenRLHF, slime, NeMo Gym).
    """
    on_failure: OnFailure = setting("sidecar")
    """Report a failed judge in this form. sidecar: NeMo Gym gets HTTP 200 with mask_sample and
    _ng_failure_class, so that its collector and its trainers leave the row out; OpenRLHF and slime,
    which read no such field, get HTTP 503. http: all get HTTP 503 without a reward, for clients
    that know no other form. score: like sidecar, but OpenRLHF and slime get fallback_score, which
    they train as a reward.
    """
    max_pending: int = setting(10_000, ge=1)
    """Refuse requests with 503 while this many judgments are in flight or queued; refuse
    connections beyond this number, or beyond 4096 if that is more.
    """
    max_body_mb: float = setting(8.0, gt=0)
    """Refuse request bodies larger than this many megabytes, with 413."""
    drain_timeout: float | None = setting(None, ge=0)
    """On SIGTERM, wait up to this many seconds for requests in flight. If unset, 10 more than
    --deadline.
    """

    @classmethod
    def kinds_beside(cls, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield the mounts' kinds of judges; mounts inherit the first judge's settings."""
        try:
            mounts = _from_json(values.get("mounts", {}))
        except ValueError:
            return  # validation reports it
        for mount in mounts.values() if isinstance(mounts, Mapping) else ():
            if isinstance(mount, Mapping):
                first = {"judge": values["judge"]} if "judge" in values else {}
                chosen: Collection[str] = JudgeMount.choices().keys()
                # A wrong mount is refused when the mounts are read, and until then nothing else.
                with suppress(ValueError):
                    chosen = JudgeMount.select_choices(
                        {**first, **JudgeMount.expand_short_forms(flat_settings(mount))}
                    )
                yield from (choice.partition("=")[2] for choice in chosen)

    @property
    def drain_s(self) -> float:
        """Seconds for draining; the default lets every request get its response."""
        if self.drain_timeout is None:
            return self.deadline + 10.0
        return self.drain_timeout

    def budgets(self) -> ServerBudgets:
        """Return the budgets: in total, and for each client.

        Raises:
            SettingsError: a client has no token.
        """
        whole = ClientBudget(calls=self.budget_calls, usd=self.budget_usd)
        return ServerBudgets(whole, self.client_budgets, self.tokens)

    def needs_one_process(self) -> str | None:
        """Return the feature that needs a single process, with its settings; `None` without one."""
        mounts = list_gathering(self.mounted_judges())
        flags = {
            "a cohort": [
                f"mounts.{name}.group_size" if name else "--group_size" for name in mounts
            ],
            "a budget": [
                f"--{name}" for name in (*BUDGETS, "client_budgets") if getattr(self, name)
            ],
            "a monitor": [f"--{name}" for name in ("run_dir", "gold_judge") if getattr(self, name)],
        }
        for part, names in flags.items():
            if names:
                return ", ".join(names) + f": {part}"
        return None

    def check_processes(self, count: int, unit: str = "worker", setting: str = "--workers") -> None:
        """Check that cohorts, budgets and monitors work with this many processes.

        Args:
            count: the number of processes that there may be.
            unit: the word for one process.
            setting: the setting of their number.

        Raises:
            SettingsError: one of them needs a single process.
        """
        needs = None
        if count > 1:
            needs = self.needs_one_process()
        if needs is not None:
            raise SettingsError(
                f"{needs} needs one {unit}, which handles some 3,000 requests a second; found "
                f"{count} {unit}s. Use {setting}=1, or a server of its own for each mount"
            )

    def failure_answers(self) -> FailureAnswers:
        """Return the substitutes for missing scores."""
        return FailureAnswers(self.fallback_score, self.invalid_completion_score, self.on_failure)

    def check_access(self) -> None:
        """Check that a server that other machines can reach has tokens, or is insecure on purpose.

        Raises:
            SettingsError: the address is not loopback, and neither tokens nor `insecure` are set;
                or a token is empty.
        """
        if any(not token.get_secret_value().strip() for token in self.tokens.values()):
            raise SettingsError("--tokens: a token is empty")
        if self.tokens or self.insecure or is_loopback("http://" + bracket_host(self.host)):
            return
        raise SettingsError(
            f"--host: {self.host} is open to other machines: set bearer tokens, such as "
            """JUDGEGYM_TOKENS='{"name": "…"}', or set --insecure"""
        )

    def mounted_judges(self) -> Mapping[str, JudgeMount]:
        """Return the judges by name; the judge at the root has the empty name.

        Files that the settings name are read at the first call, so that a reload compares with what
        is served.

        Raises:
            SettingsError: a mount has a bad name, an unknown setting, a bad value, or cannot gather
                responses.
        """
        if self._mounted is None:
            self._mounted = self._read_judges()
        return self._mounted

    def _read_judges(self) -> dict[str, JudgeMount]:
        values = {
            name: getattr(self, name)
            for name in type(self).model_fields
            if name in self.model_fields_set
        }
        first_type = JudgeMount.select_class({"judge": self.judge, **values})
        mounted = {
            "": first_type(
                **{name: values[name] for name in values if name in first_type.model_fields}
            )
        }
        mounted[""].cohort_limits(self.deadline, "--")
        trainer = getattr(self, FLAG)
        if trainer in _SENDS_ONE and self.definition.needs_group and self.group_size is None:
            raise SettingsError(
                f"--for: {trainer} sends one response per request, and the judge {self.judge} "
                "compares several; set --group_size to the number of samples for each prompt"
            )
        for name, values in self.mounts.items():
            mounted[name] = _mount(name, values, mounted[""])
            mounted[name].cohort_limits(self.deadline, f"mounts.{name}.")
        return mounted


def list_gathering(mounts: Mapping[str, JudgeMount]) -> list[str]:
    """Return the names of the judges that gather single responses."""
    return [name for name, mount in mounts.items() if mount.gathers]


def _mount(name: str, values: Mapping[str, object], first: JudgeMount) -> JudgeMount:
    """Return a mount's settings, completed by the first judge's; gathering only if it compares."""
    if re.match(_NAME, name) is None or name in RESERVED:
        raise SettingsError(
            f"mounts: {name!r} cannot be part of a path; expected lower-case letters, digits, - "
            "and _, and none of " + ", ".join(sorted(RESERVED))
        )
    try:
        values_of_mount = JudgeMount.expand_short_forms(flat_settings(values))
    except ValueError as error:
        raise SettingsError(f"mounts.{name}.{error}") from None
    mount_type = JudgeMount.select_class({"judge": first.judge, **values_of_mount})
    names = mount_type.model_fields.keys() - {*CODE_SETTINGS}
    if values_of_mount.get("judge", first.judge) not in COMPARING_KINDS:
        names -= {*_GATHERING}
    return settings_from_keywords(
        mount_type, first.fill_in(values_of_mount, names), prefix=f"mounts.{name}."
    )


def bracket_host(host: str) -> str:
    """Return a host as it is written in a URL."""
    if ":" in host:
        return f"[{host}]"
    return host
