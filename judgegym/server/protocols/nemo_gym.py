"""NeMo Gym's resources server: `/seed_session`, `/verify`, `/close_session`, `/aggregate_metrics`, `/reverify_mode`.

A failed judge is reported in the row (`on_failure=sidecar`): `_ng_failure_class`, by which the
collector leaves the row out and tries it again, and `mask_sample`, by which trainers leave it out
of the loss: at the top level, and in `instance_config`, the only place where NeMo-RL reads it. A
masked row still counts in the baseline of its group; therefore its `reward` is the mean of the
others, as far as they are known. Clients that know none of this take `on_failure=http`: HTTP 503
without a reward. An HTTP error ends NeMo Gym's whole collection; therefore in the first form a row
that cannot be judged is a failed row, too, and not an error.

A rollout whose own response has failed (`status` failed, cancelled, in_progress or queued, `error`,
or content that was filtered) is a failed row, too, and no judge is asked: its text is no whole
answer. Its class is `policy_failed`, which the collector tries again and a re-verification of
failed judges leaves alone. One that was cut off at its limit is judged.

`reward_components` are not sent: NeMo-RL ends training if they do not sum to the reward, and those
of a judge (a raw score, verdicts that are weighted) do not. They are in `judge_components`.

A row says to which group its rollout belongs, for judges that compare (`--group_size`):
`_ng_group_id`, else `_ng_task_index`, each with the attempt; and `_ng_rollout_index` says which of
the group it is.

Environment servers (NeMo Gym 0.7) name the episode when they seed a session, and not in the row of
`/verify`: the session's cookie says which task it is (the group) and which rollout. They refuse a
reply with fields that begin with `_ng_`, and make a failed episode of an HTTP error: it ends
nothing, and after a 503 the collector tries it again. Within a session a failure is therefore an
HTTP error.

Source: NeMo Gym 0.5 and 0.7, for `_ng_group_id` the cohorts of its later GenRM server, and for what
a trainer reads NeMo-RL's `rollouts.py` and `environments/nemo_gym.py` (August 2026).

NeMo Gym's `/aggregate_metrics`: statistics over the rollouts of a run, in the shape that its agent
reads.

The agent fills a field that is missing with an empty one, without an error; so the shape matters: a
list of statistics for each task, a mapping of statistics of all rollouts (`mean/reward`, `std/raw`,
…), and the headline ones among them. A failed or masked rollout counts in `num_failed` and in no
statistic; NeMo Gym 0.7 does not send failed ones here.

NeMo Gym's `POST /compare`: the rewards of several responses to one conversation, for judges that
compare.

The rewards are from 0 to 1. The answer has a number for each response and no other way to say that
there is none: a response that the judge failed to score gets the mean of the other rewards, which
leaves their advantages as they are; `metrics.judge_failed` counts such responses, and
`comparison_results` says which they are and why. With `on_failure=http`, and where no response has
a reward, the answer is HTTP 503.

Source: NeMo Gym 0.5, its GenRM server and the client of it.
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
"""The class that `gym eval reverify --judge-failed-only` takes."""
POLICY_FAILED = "policy_failed"
"""The class of a row whose policy has failed."""
INVALID_ROW = "invalid_row"
"""The class of a row that no judge can score: another rollout of it would fail the same way."""
MASK = "mask_sample"
CONFIG = "instance_config"
MOUNT = "judge_mount"
"""The field of a row that names the judge, since a resources server's address has no path."""

_GROUPS = (("_ng_group_id", "_ng_group_attempt"), ("_ng_task_index", "_ng_attempt_index"))
"""What names the group of a rollout, each with the number of the attempt at it; the first that a row has counts."""
_MEMBERS = ("_ng_rollout_index", "_rowidx")
"""What names a rollout in its group: the collector's own number, or NeMo RL's number of the row in its batch."""

COMPONENTS = "judge_components"
_OLD_COMPONENTS = "reward_components"
_INVALID = "invalid_completion"
_EARLIER_FIELDS = frozenset(
    {"reward", COMPONENTS, _OLD_COMPONENTS, MASK, "failure_kind", "failure_reason", _INVALID}
)
_EARLIER_FAILURE = "_ng_failure_"
_MASKED_BY_US = "_ng_failure_masked"
"""Says that `instance_config` has its mask from us, so that it goes when the row is judged."""
_UNFINISHED = ("failed", "cancelled", "in_progress", "queued")
_FILTERED = "content_filter"
_DATA_FAULTS = frozenset({"invalid", UNUSABLE})
_KINDS = {"judge_failed": "judge_failed", "unparsable": "judge_unparseable"}
"""NeMo Gym's own names of a failure's kind; it warns of another name that does not begin with the server's."""

SESSION = "resources_session_id"
_COOKIE = "judgegym_episode"
_EPISODE = "_ng_judgegym_episode"
"""In the row of a session: the group and the rollout that its cookie names."""


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
    """Answer `/seed_session`: nothing is kept here; an environment server gets the episode back as a cookie.

    Raises:
        RequestError: it names a session, but not the episode.
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
    """Answer `/close_session`: there is nothing to close."""
    return json_response({name: raw[name] for name in (SESSION,) if name in raw})


class CreateParams(BaseModel):
    """The request that was sent to the policy."""

    model_config = ConfigDict(extra="ignore", strict=True)

    input: str | list[dict[str, object]]
    tools: object = None


class PolicyResponse(BaseModel):
    """The response of the policy: messages, reasoning, tool calls and their outputs."""

    model_config = ConfigDict(extra="ignore", strict=True)

    output: list[dict[str, object]]
    status: object = None
    error: object = None
    incomplete_details: object = None

    @property
    def failure(self) -> str | None:
        """Why it is no whole answer; `None` if it is one, or was cut off at its limit."""
        if self.error:
            words = self.error.get("message") if isinstance(self.error, Mapping) else self.error
            return f"the policy's response has an error: {wire.shorten(str(words))}"
        if self.status in _UNFINISHED:
            return f"the policy's response has the status {self.status}"
        details = self.incomplete_details
        if isinstance(details, Mapping) and details.get("reason") == _FILTERED:
            return "the policy's response is incomplete: content_filter"
        return None


def _read_texts(fields: Mapping[str, object]) -> JudgeTask:
    """The context and the baseline of a row, where they are texts; a column of that name may hold something else."""
    texts = JudgeTask("", ())
    for name in ("context", "baseline"):
        with suppress(FieldTypeError):
            value = getattr(make_judge_task("", (), {name: fields.get(name)}), name)
            texts = replace(texts, **{name: value})
    return texts


class VerifyBody(RequestBody):
    """`POST /verify`: a rollout to verify, with the fields of its dataset row."""

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
        """Return the row with the episode that the session's cookie names, if it has one."""
        with suppress(CookieError):
            morsel = SimpleCookie(cookies).get(_COOKIE)
            if morsel is not None and morsel.value.count(".") >= 2:
                return {**raw, _EPISODE: morsel.value}
        return raw

    def tasks(self, raw: Mapping[str, JSON]) -> list[JudgeTask]:
        """What is judged of the rollout as the response; the row's question, else the input, as the prompt.

        Raises:
            ValueError: the row cannot be echoed as JSON.
        """
        try:
            wire.dumps(raw)
        except (TypeError, RecursionError) as error:
            raise ValueError(
                f"the row cannot be echoed: {type(error).__name__}: {error}"
            ) from error
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
            turns = (
                (text_turn("user", prompt_input),)
                if isinstance(prompt_input, str)
                else parse_items(prompt_input)
            )
            trace = final_turns(self.response.output)
        prompt = (
            prompt_input
            if isinstance(prompt_input, str) and not tools
            else render_transcript(add_tools(turns, tools))
        )
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
        """The criteria of a row: those of `criteria` must be readable, another column may hold something else."""
        if self.criteria is not None:
            return parse_criteria(self.criteria) if isinstance(self.criteria, list | dict) else None
        try:
            return parse_criteria(value)
        except ValueError:
            return None

    def reply(
        self, raw: Mapping[str, JSON], results: Results, answers: FailureAnswers
    ) -> ServerResponse:
        """Return the row with the reward and its components, or with what says that there is none.

        Raises:
            RequestError: the judge failed, and that is to be told by HTTP.
        """
        result = results[0][0]
        is_episode = _EPISODE in raw
        if (fault := self.response.failure) is not None:
            result = replace(result, status=POLICY_FAILED, is_final=not is_episode)
        if result.is_failed:
            if answers.on_failure == "http" or is_episode:
                raise make_failure_error(result)
            cause = JUDGE_FAILED if fault is None else POLICY_FAILED
            reward = answers.placeholder(result.others)
            return _failed_row(
                raw, cause, kind=result.status, reason=result.explanation, reward=reward
            )
        row = _drop_earlier_result(raw)
        if result.is_invalid:
            row |= {"reward": answers.invalid_completion_score, _INVALID: True}
            return json_response(row, failed=result.status)
        components: dict[str, JSON] = {**result.components} or {"score": result.score}
        # Metrics are taken from numbers at the top level only; a field of the row keeps its name.
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
        """Return a failed row, unless failures are told by HTTP.

        Raises:
            RequestError: the error, with `on_failure=http` and within a session.
        """
        if answers.on_failure == "http" or _EPISODE in raw:
            raise error
        cause = INVALID_ROW if error.kind in _DATA_FAULTS else JUDGE_FAILED
        kind = INVALID_ROW if cause == INVALID_ROW else error.kind
        return _failed_row(
            raw, cause, kind=kind, reason=error.message, reward=answers.placeholder(error.others)
        )


def _find_group(raw: Mapping[str, JSON]) -> str | None:
    """The id of a rollout's group: its session's, the caller's, or its task's number, else the id of its prompt."""
    if _EPISODE in raw:
        task, attempt, _ = str(raw[_EPISODE]).split(".", 2)
        return f"session={task} attempt={attempt}"
    for name, attempt in _GROUPS:
        if (group_id := parse_id(raw.get(name))) is not None:
            return f"{name}={group_id} attempt={parse_id(raw.get(attempt)) or 0}"
    return parse_id(raw.get("prompt_id"))


def _find_member(raw: Mapping[str, JSON]) -> str | None:
    """Return the id of a rollout in its group."""
    if _EPISODE in raw:
        return str(raw[_EPISODE]).split(".", 2)[2]
    return next(
        (member_id for name in _MEMBERS if (member_id := parse_id(raw.get(name))) is not None), None
    )


def final_turns(output: Sequence[Mapping[str, object]]) -> tuple[Turn, ...]:
    """What is judged of a rollout: its last message, or if there are tool calls all turns; none without any text.

    With tools the messages, the calls with their arguments, and the outputs are judged, in their
    order: a rollout that ends in a call is an answer, too. Reasoning is not shown.
    """
    turns = parse_items(output)
    if all(item.get("type", "message") in ("message", "reasoning") for item in output):
        messages = [turn for turn in turns if turn.role == "assistant"]
        return (messages[-1],) if messages and messages[-1].text.strip() else ()
    return turns


def _drop_earlier_result(raw: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the request's fields without those of an earlier answer, which a row that is verified again still has."""
    earlier = (raw.get(COMPONENTS), raw.get(_OLD_COMPONENTS))
    stale = _EARLIER_FIELDS.union(*(names for names in earlier if isinstance(names, Mapping)))
    row = {
        name: value
        for name, value in raw.items()
        if name not in stale and not name.startswith(_EARLIER_FAILURE)
    }
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
    """Verified rollouts, to be aggregated."""

    model_config = ConfigDict(extra="ignore", strict=True)

    verify_responses: list[dict[str, object]]


def aggregate(body: AggregateBody) -> dict[str, JSON]:
    """Return the statistics of a run's rollouts."""
    judged = [
        rollout
        for rollout in body.verify_responses
        if FAILURE not in rollout and rollout.get(MASK) is not True
    ]
    if any(
        _INVALID in rollout for rollout in judged
    ):  # a share of all, which those that are valid do not name
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
    """Return the rollouts by a number that they have, in its order; 0 for those without it."""
    groups: dict[int, list[Rollout]] = {}
    for rollout in rollouts:
        number = rollout.get(name)
        groups.setdefault(number if isinstance(number, int) else 0, []).append(rollout)
    return dict(sorted(groups.items()))


def _statistics(rollouts: Iterable[Rollout]) -> dict[str, float]:
    """Mean, max, min, median and deviation of each number of the rollouts and of their usage."""
    columns: dict[str, list[float]] = {}
    for rollout in rollouts:
        response = rollout.get("response")
        usage = response.get("usage") if isinstance(response, Mapping) else None
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
        # The sum of two may be beyond the range of a float.
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
    return number if math.isfinite(number) else None


class CompareBody(RequestBody):
    """`POST /compare`: a conversation up to where the responses part, the responses, and what makes one good."""

    protocol = "nemo_gym_compare"
    path = "/compare"
    answer = "Compared"
    names_judge = compares = True

    conversation_history: list[dict[str, object]]
    response_objs: list[PolicyResponse] = Field(max_length=256)
    principle: str | None = None
    judge_mount: str | None = None

    def tasks(self, raw: Mapping[str, JSON]) -> list[JudgeTask]:
        """One item with all whole responses; the principle is the criteria."""
        prompt = render_transcript(parse_items(self.conversation_history))
        whole = [response for response in self.response_objs if response.failure is None]
        traces = tuple(final_turns(response.output) for response in whole)
        responses = tuple(map(render_transcript, traces))
        return (
            [JudgeTask(prompt, responses, rubric=self.principle or None, traces=traces)]
            if traces
            else []
        )

    def reply(
        self, raw: Mapping[str, JSON], results: Results, answers: FailureAnswers
    ) -> ServerResponse:
        """Rewards in the order of the responses.

        Raises:
            RequestError: no response has a reward; or one has none, and that is to be told by HTTP.
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
        mean = statistics.fmean(others) if others else 0.0
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
