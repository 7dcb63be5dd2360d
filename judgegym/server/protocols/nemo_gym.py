"""NeMo Gym's resources server: its routes for sessions, verification, comparison and metrics.

The routes are `/seed_session`, `/verify`, `/close_session`, `/aggregate_metrics`, `/reverify_mode`
and `/compare`.

With `on_failure=sidecar` a failed judge is reported in the row: `_ng_failure_class` makes the
collector leave the row out and retry it, and `mask_sample` makes trainers leave it out of the loss.
The mask is sent at the top level and in `instance_config`, the only place where NeMo-RL reads it. A
masked row still counts in its group's baseline; its `reward` is therefore the mean of the other
rewards, as far as they are known. Clients that read none of these fields need `on_failure=http`:
HTTP 503 without a reward. An HTTP error ends NeMo Gym's whole collection; with `sidecar` a row that
cannot be judged is therefore a failed row too, and no error.

A rollout whose own response failed (`status` failed, cancelled, in_progress or queued, `error`, or
filtered content) is also a failed row, and is not judged: its text is incomplete. Its class is
`policy_failed`, which the collector retries and a re-verification of failed judges ignores. A
rollout that was cut off at its token limit is judged.

`reward_components` are not sent: NeMo-RL ends training if they do not sum to the reward, and a
judge's components (a raw score, weighted verdicts) do not. They are in `judge_components`.

A row names its rollout's group, for judges that compare (`--group_size`): `_ng_group_id`, else
`_ng_task_index`, each with the attempt; `_ng_rollout_index` names the rollout within the group.

Environment servers (NeMo Gym 0.7) name the episode when they seed a session, and not in the row of
`/verify`: the session's cookie names task (the group) and rollout. They reject a response with
fields that begin with `_ng_`, and turn an HTTP error into a failed episode, which ends nothing;
after a 503 the collector retries it. Within a session a failure is therefore an HTTP error.

Source: NeMo Gym 0.5 and 0.7; for `_ng_group_id` the cohorts of its later GenRM server; for the
fields that trainers read, NeMo-RL's `rollouts.py` and `environments/nemo_gym.py` (August 2026).

`/aggregate_metrics` returns statistics over the rollouts of a run, in the shape that NeMo Gym's
agent reads. The agent replaces a missing field by an empty one without an error, so the shape
matters: a list of statistics for each task, a mapping of statistics over all rollouts
(`mean/reward`, `std/raw`, …), and the headline statistics among them. A failed or masked rollout
counts in `num_failed` and in no statistic; NeMo Gym 0.7 does not send failed ones here.

`POST /compare` returns the rewards, from 0 to 1, of several responses to one conversation, for
judges that compare. The response has a number for each of them and cannot report a missing one: if
the judge failed for a response, it gets the mean of the other rewards, which leaves their
advantages unchanged. `metrics.judge_failed` counts these, and `comparison_results` names them with
the reason. With `on_failure=http`, and if no response has a reward, the answer is HTTP 503.

Source: NeMo Gym 0.5, its GenRM server and its client.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from http.cookies import CookieError, SimpleCookie

from pydantic import BaseModel, ConfigDict, Field

from judgegym.judges.checklists.criteria import Criterion
from judgegym.judges.conversations.images import show_images
from judgegym.judges.conversations.messages import parse_items
from judgegym.judges.conversations.readers import add_tools, read_tools
from judgegym.judges.conversations.turns import Turn, list_images, render_transcript, text_turn
from judgegym.judges.core.tasks import BUDGET_SPENT, JudgeTask, make_failure
from judgegym.judges.scorers.columns import read_fields
from judgegym.judges.scorers.fields import (
    FieldTypeError,
    make_judge_task,
    parse_criteria,
    parse_rubric,
)
from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.server.answers import (
    JUDGE_FAILED,
    UNUSABLE,
    FailureAnswers,
    RequestError,
    make_failure_error,
)
from judgegym.server.protocols.base import RequestBody, Results, parse_id
from judgegym.server.protocols.native import RubricField
from judgegym.server.request import ServerResponse, json_response, validate_body

FAILURE = "_ng_failure_class"
"""The failure class that `gym eval reverify --judge-failed-only` reads."""
POLICY_FAILED = "policy_failed"
"""Failure class of a row whose policy failed."""
INVALID_ROW = "invalid_row"
"""Failure class of a row that no judge can score: other rollouts of it would fail the same way."""
MASK = "mask_sample"
CONFIG = "instance_config"
MOUNT = "judge_mount"
"""The row's field that names the judge, since a resources server's address has no path."""

_GROUPS = (("_ng_group_id", "_ng_group_attempt"), ("_ng_task_index", "_ng_attempt_index"))
"""Fields that name a rollout's group, each with the attempt's field; the first one counts."""
_MEMBERS = ("_ng_rollout_index", "_rowidx")
"""Fields that name a rollout in its group: the collector's number, or NeMo RL's row number."""

COMPONENTS = "judge_components"
_OLD_COMPONENTS = "reward_components"
_INVALID = "invalid_completion"
_EARLIER_FIELDS = frozenset(
    {"reward", COMPONENTS, _OLD_COMPONENTS, MASK, "failure_kind", "failure_reason", _INVALID}
)
_EARLIER_FAILURE = "_ng_failure_"
_MASKED_BY_US = "_ng_failure_masked"
"""Marks a mask in `instance_config` as ours, so that it is removed when the row is judged."""
_UNFINISHED = ("failed", "cancelled", "in_progress", "queued")
_FILTERED = "content_filter"
_DATA_FAULTS = frozenset({"invalid", UNUSABLE})
_KINDS = {"judge_failed": "judge_failed", "unparsable": "judge_unparseable"}
"""NeMo Gym's names of failure kinds; it warns of any other name without the server's prefix."""

SESSION = "resources_session_id"
_COOKIE = "judgegym_episode"
_EPISODE = "_ng_judgegym_episode"
"""The row's field for group and rollout, taken from the session's cookie."""


class _TaskId(BaseModel):
    taskset: str
    task_id: str


class _EpisodeId(BaseModel):
    rollout_id: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    attempt: int = 0


class _Seed(BaseModel):
    resources_session_id: str
    episode_id: _EpisodeId
    task_id: _TaskId


def seed_session(raw: Mapping[str, JSON]) -> ServerResponse:
    """Respond to `/seed_session`: an environment server gets the episode back as a cookie.

    Raises:
        RequestError: the body names a session but no episode.
    """
    if SESSION not in raw:
        return json_response({})
    seed = validate_body(_Seed, raw)
    group = hashlib.sha256(wire.dumps([seed.task_id.taskset, seed.task_id.task_id])).hexdigest()[
        :32
    ]
    cookie = (
        f"{_COOKIE}={group}.{seed.episode_id.attempt}.{seed.episode_id.rollout_id}; Path=/; "
        "HttpOnly"
    )
    return json_response({SESSION: seed.resources_session_id}, headers={"Set-Cookie": cookie})


def close_session(raw: Mapping[str, JSON]) -> ServerResponse:
    """Respond to `/close_session`; no state is kept, so there is nothing to close."""
    return json_response({name: raw[name] for name in (SESSION,) if name in raw})


class CreateParams(BaseModel):
    """The request that was sent to the policy."""

    model_config = ConfigDict(extra="ignore", strict=True)

    input: str | list[dict[str, object]]
    tools: object = None


class PolicyResponse(BaseModel):
    """The policy's response: messages, reasoning, tool calls and their outputs."""

    model_config = ConfigDict(extra="ignore", strict=True)

    output: list[dict[str, object]]
    status: object = None
    error: object = None
    incomplete_details: object = None

    @property
    def failure(self) -> str | None:
        """The reason why the response is incomplete; `None` if it is whole or cut at its limit."""
        if self.error:
            reason = self.error
            if isinstance(self.error, Mapping):
                reason = self.error.get("message")
            return "the policy's response has an error: " + wire.shorten(str(reason))
        if self.status in _UNFINISHED:
            return f"the policy's response has the status {self.status}"
        details = self.incomplete_details
        if isinstance(details, Mapping) and details.get("reason") == _FILTERED:
            return "the policy's response is incomplete: content_filter"
        return None


def _read_texts(fields: Mapping[str, object]) -> JudgeTask:
    """Read the row's context and baseline if they are texts; the columns may hold other things."""
    texts = JudgeTask("", ())
    for name in ("context", "baseline"):
        with suppress(FieldTypeError):
            value = getattr(make_judge_task("", (), {name: fields.get(name)}), name)
            texts = replace(texts, **{name: value})
    return texts


class VerifyBody(RequestBody):
    """The body of `POST /verify`: a rollout to verify, with the fields of its dataset row."""

    protocol = "nemo_gym"
    path = "/verify"
    answer = "Verified"
    names_judge = tells_faults = True

    responses_create_params: CreateParams
    response: PolicyResponse
    question: str | None = None
    reference_answer: str | None = None
    rubric: RubricField | list[object] = None
    criteria: object = None
    principle: str | None = None
    judge_mount: str | None = None

    @classmethod
    def merge_session(cls, raw: Mapping[str, JSON], cookies: str) -> Mapping[str, JSON]:
        """Return the row, with the episode that the session's cookie names."""
        with suppress(CookieError):
            morsel = SimpleCookie(cookies).get(_COOKIE)
            if morsel is not None and morsel.value.count(".") >= 2:
                return {**raw, _EPISODE: morsel.value}
        return raw

    def tasks(self, raw: Mapping[str, JSON]) -> list[JudgeTask]:
        """Make one task: the judged part of the rollout as response; question or input as prompt.

        Raises:
            ValueError: the row cannot be echoed as JSON.
        """
        try:
            wire.dumps(raw)
        except (TypeError, RecursionError) as error:
            kind = type(error).__name__
            raise ValueError(f"the row cannot be echoed: {kind}: {error}") from error
        fields = read_fields(raw)
        rubric, levels = parse_rubric(
            self.principle if fields.get("rubric") is None else fields["rubric"]
        )
        reference = fields.get("reference")
        prompt_input = (
            self.responses_create_params.input if self.question is None else self.question
        )
        tools = read_tools(self.responses_create_params.tools)
        with show_images():
            if isinstance(prompt_input, str):
                turns: tuple[Turn, ...] = (text_turn("user", prompt_input),)
            else:
                turns = parse_items(prompt_input)
            trace = final_turns(self.response.output)
        if isinstance(prompt_input, str) and not tools:
            prompt = prompt_input
        else:
            prompt = render_transcript(add_tools(turns, tools))
        texts = _read_texts(fields)
        return [
            JudgeTask(
                prompt,
                (render_transcript(trace),),
                traces=(trace,),
                images=list_images(turns),
                tools=tools,
                reference=reference if isinstance(reference, str) else None,
                context=texts.context,
                baseline=texts.baseline,
                rubric=rubric,
                levels=levels,
                fault=self.response.failure,
                awaits_others=True,
                criteria=self._criteria(fields.get("criteria")),
                group=_find_group(raw),
                member=_find_member(raw),
            ).number_images()
        ]

    def _criteria(self, value: object) -> tuple[Criterion, ...] | None:
        """Read the row's criteria; those in `criteria` must be readable, other columns need not."""
        if self.criteria is not None:
            if isinstance(self.criteria, list | dict):
                return parse_criteria(self.criteria)
            return None
        try:
            return parse_criteria(value)
        except ValueError:
            return None

    def reply(
        self, raw: Mapping[str, JSON], results: Results, answers: FailureAnswers
    ) -> ServerResponse:
        """Return the row with the reward and its components, or with fields that report a failure.

        Raises:
            RequestError: the judge failed, and failures are reported by HTTP.
        """
        result = results[0][0]
        is_episode = _EPISODE in raw
        if (fault := self.response.failure) is not None:
            result = replace(result, status=POLICY_FAILED, is_final=not is_episode)
        if result.is_failed:
            if answers.on_failure == "http" or is_episode:
                raise make_failure_error(result)
            cause = POLICY_FAILED
            if fault is None:
                cause = JUDGE_FAILED
            reward = answers.placeholder(result.others)
            return _failed_row(
                raw, cause, kind=result.status, reason=result.explanation, reward=reward
            )
        row = _drop_earlier_result(raw)
        if result.is_invalid:
            row |= {"reward": answers.invalid_completion_score, _INVALID: True}
            return json_response(row, failed=result.status)
        components: dict[str, JSON] = {**result.components} or {"score": result.score}
        # NeMo Gym takes metrics from top-level numbers only; a field of the row keeps its name.
        numbers = {
            (f"judge_{name}" if name in row else name): value for name, value in components.items()
        }
        return json_response({**row, **numbers, "reward": result.score, COMPONENTS: components})

    @classmethod
    def is_patient(cls, answers: FailureAnswers) -> bool:
        """See `RequestBody`: a failed row is not verified again."""
        return answers.on_failure != "http"

    @classmethod
    def reply_to_error(
        cls, raw: Mapping[str, JSON], error: RequestError, answers: FailureAnswers
    ) -> ServerResponse:
        """Return a failed row, unless failures are reported by HTTP.

        Raises:
            RequestError: the error, with `on_failure=http` and within a session.
        """
        if answers.on_failure == "http" or _EPISODE in raw:
            raise error
        cause = JUDGE_FAILED
        if error.kind in _DATA_FAULTS:
            cause = INVALID_ROW
        kind = INVALID_ROW
        if cause != INVALID_ROW:
            kind = error.kind
        return _failed_row(
            raw, cause, kind=kind, reason=error.message, reward=answers.placeholder(error.others)
        )


def _find_group(raw: Mapping[str, JSON]) -> str | None:
    """Return the id of a rollout's group: from its session, the caller, its task or its prompt."""
    if _EPISODE in raw:
        task, attempt, _ = str(raw[_EPISODE]).split(".", 2)
        return f"session={task} attempt={attempt}"
    for name, attempt in _GROUPS:
        if (group_id := parse_id(raw.get(name))) is not None:
            attempt_id = parse_id(raw.get(attempt)) or 0
            return f"{name}={group_id} attempt={attempt_id}"
    return parse_id(raw.get("prompt_id"))


def _find_member(raw: Mapping[str, JSON]) -> str | None:
    """Return the id of a rollout in its group."""
    if _EPISODE in raw:
        return str(raw[_EPISODE]).split(".", 2)[2]
    return next(
        (member_id for name in _MEMBERS if (member_id := parse_id(raw.get(name))) is not None), None
    )


def final_turns(output: Sequence[Mapping[str, object]]) -> tuple[Turn, ...]:
    """Return the turns to judge: the last message, or with tool calls all turns; none without text.

    With tools, messages, calls with arguments, and outputs are judged in their order: a rollout may
    end with a call. Reasoning is not shown.
    """
    turns = parse_items(output)
    if all(item.get("type", "message") in ("message", "reasoning") for item in output):
        messages = [turn for turn in turns if turn.role == "assistant"]
        if messages and messages[-1].text.strip():
            return (messages[-1],)
        return ()
    return turns


def _drop_earlier_result(raw: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the request's fields without those of an earlier verification of the row."""
    earlier = (raw.get(COMPONENTS), raw.get(_OLD_COMPONENTS))
    stale = _EARLIER_FIELDS.union(*(names for names in earlier if isinstance(names, Mapping)))
    row = {name: value for name, value in raw.items() if not name.startswith(_EARLIER_FAILURE)}
    row = {name: value for name, value in row.items() if name not in stale}
    if _EPISODE in raw:
        row = {name: value for name, value in row.items() if not name.startswith(_FIELD_PREFIX)}
    config = raw.get(CONFIG)
    if raw.get(_MASKED_BY_US) is True and isinstance(config, Mapping):
        row[CONFIG] = {name: value for name, value in config.items() if name != MASK}
        if not row[CONFIG]:
            del row[CONFIG]
    return row


def _failed_row(
    raw: Mapping[str, JSON], cause: str, *, kind: str, reason: str, reward: float
) -> ServerResponse:
    row: dict[str, JSON] = {
        name: value for name, value in _drop_earlier_result(raw).items() if _is_json(value)
    }
    row |= {
        "reward": reward,
        MASK: True,
        "failure_kind": _KINDS.get(kind, f"judgegym:{kind}"),
        "failure_reason": reason,
        FAILURE: cause,
        "_ng_failure_judge_error": reason,
    }
    config = row.get(CONFIG)
    if config is None:
        config = {}
    if isinstance(config, Mapping) and not config.get(MASK):
        row |= {CONFIG: {**config, MASK: True}, _MASKED_BY_US: True}
    if cause == INVALID_ROW or kind == BUDGET_SPENT:
        row["_ng_failure_terminal"] = True
    return json_response(row, failed=kind)


def _is_json(value: JSON) -> bool:
    try:
        wire.dumps(value)
    except (TypeError, RecursionError):
        return False
    return True


TASK = "_ng_task_index"
ROLLOUT = "_ng_rollout_index"
_FIELD_PREFIX = "_ng_"

Rollout = Mapping[str, object]


class AggregateBody(BaseModel):
    """The body of `POST /aggregate_metrics`: verified rollouts."""

    model_config = ConfigDict(extra="ignore", strict=True)

    verify_responses: list[dict[str, object]]


def aggregate(body: AggregateBody) -> dict[str, JSON]:
    """Return the statistics of a run's rollouts."""
    judged = [rollout for rollout in body.verify_responses if FAILURE not in rollout]
    judged = [rollout for rollout in judged if rollout.get(MASK) is not True]
    has_invalid = any(_INVALID in rollout for rollout in judged)
    if has_invalid:  # a share of all rollouts; valid ones lack the field
        judged = [{_INVALID: False, **rollout} for rollout in judged]
    by_task = _group_by(judged, TASK)
    groups: list[JSON] = [
        {TASK: task, "num_rollouts": len(rollouts), **_statistics(rollouts)}
        for task, rollouts in by_task.items()
    ]
    counts = {
        "num_responses": len(body.verify_responses),
        "num_failed": len(body.verify_responses) - len(judged),
    }
    overall = _statistics(judged)
    headline = {name: value for name, value in overall.items() if name.startswith("mean/")}
    if not body.verify_responses:
        return {"group_level_metrics": [], "agent_metrics": {}, "key_metrics": {}}
    aggregated: dict[str, JSON] = {
        "group_level_metrics": groups,
        "agent_metrics": {**overall, **counts},
        "key_metrics": headline,
    }
    by_repeat = _group_by(judged, ROLLOUT)
    if len(by_repeat) > 1:
        aggregated["repeat_level_metrics"] = [
            {
                ROLLOUT: repeat,
                "sample_count": len(rollouts),
                "missing_count": len(by_task) - len(rollouts),
                **_statistics(rollouts),
            }
            for repeat, rollouts in by_repeat.items()
        ]
    return aggregated


def _group_by(rollouts: Iterable[Rollout], name: str) -> dict[int, list[Rollout]]:
    """Group the rollouts by one of their integer fields, in its order; missing ones count as 0."""
    groups: dict[int, list[Rollout]] = {}
    for rollout in rollouts:
        number = rollout.get(name)
        groups.setdefault(number if isinstance(number, int) else 0, []).append(rollout)
    return dict(sorted(groups.items()))


def _statistics(rollouts: Iterable[Rollout]) -> dict[str, float]:
    """Return mean, max, min, median and deviation of the numbers in rollouts and their usage."""
    columns: dict[str, list[float]] = {}
    for rollout in rollouts:
        response = rollout.get("response")
        usage = None
        if isinstance(response, Mapping):
            usage = response.get("usage")
        for source in (usage, rollout):
            for name, value in source.items() if isinstance(source, Mapping) else ():
                if (
                    not name.startswith(_FIELD_PREFIX)
                    and name != MASK
                    and (number := _number(value)) is not None
                ):
                    columns.setdefault(name, []).append(number)
    summary: dict[str, float] = {}
    for name, values in columns.items():
        summary[f"mean/{name}"] = statistics.mean(values)
        summary[f"max/{name}"] = max(values)
        summary[f"min/{name}"] = min(values)
        # The sum of two values may exceed the range of a float.
        summary[f"median/{name}"] = (
            statistics.median_low(values) / 2 + statistics.median_high(values) / 2
        )
        with suppress(OverflowError):
            summary[f"std/{name}"] = statistics.stdev(values) if len(values) > 1 else 0.0
    return summary


def _number(value: object) -> float | None:
    if not isinstance(value, bool | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if math.isfinite(number):
        return number
    return None


class CompareBody(RequestBody):
    """The body of `POST /compare`: a shared conversation, its responses, and the criteria."""

    protocol = "nemo_gym_compare"
    path = "/compare"
    answer = "Compared"
    names_judge = compares = True

    conversation_history: list[dict[str, object]]
    response_objs: list[PolicyResponse] = Field(max_length=256)
    principle: str | None = None
    judge_mount: str | None = None

    def tasks(self, raw: Mapping[str, JSON]) -> list[JudgeTask]:
        """Make one task of all complete responses; the principle becomes the criteria."""
        prompt = render_transcript(parse_items(self.conversation_history))
        whole = [response for response in self.response_objs if response.failure is None]
        traces = tuple(final_turns(response.output) for response in whole)
        responses = tuple(map(render_transcript, traces))
        if traces:
            return [JudgeTask(prompt, responses, rubric=self.principle or None, traces=traces)]
        return []

    def reply(
        self, raw: Mapping[str, JSON], results: Results, answers: FailureAnswers
    ) -> ServerResponse:
        """Return the rewards in the order of the responses.

        Raises:
            RequestError: no response has a reward; or one has none, and failures are reported by
                HTTP.
        """
        judged = iter(results[0] if results else ())
        faults = [response.failure for response in self.response_objs]
        judgments = [
            next(judged) if fault is None else make_failure(fault, POLICY_FAILED)
            for fault in faults
        ]
        rewards_or_none = [
            None if result.is_failed else answers.choose_score(result) for result in judgments
        ]
        others = [reward for reward in rewards_or_none if reward is not None]
        failed = next((result for result in judgments if result.is_failed), None)
        if failed is not None and (answers.on_failure == "http" or not others):
            raise make_failure_error(failed)
        mean = 0.0
        if others:
            mean = statistics.fmean(others)
        rewards: list[JSON] = [mean if reward is None else reward for reward in rewards_or_none]
        metrics: dict[str, JSON] = {
            "mean_reward": mean,
            "std_reward": statistics.pstdev(others) if others else 0.0,
            "judge_failed": float(sum(result.is_failed for result in judgments)),
            "judge_calls": float(sum(result.judge_calls for result in judgments)),
        }
        compared: list[JSON] = [
            {
                **result.components,
                "response_i": index,
                "status": result.status,
                "judge_failed": result.is_failed,
                "explanation": result.explanation,
            }
            for index, result in enumerate(judgments)
        ]
        body: JSON = {"rewards": rewards, "comparison_results": compared, "metrics": metrics}
        return json_response(body, failed=None if failed is None else failed.status)
