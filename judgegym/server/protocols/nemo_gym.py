"""NeMo Gym's resources server: `/seed_session`, `/verify`, `/aggregate_metrics`, `/reverify_mode`.

A failed judge is reported in the row (`on_failure=sidecar`): `_ng_failure_class`, by which the collector leaves the
row out and tries it again, and `mask_sample`, by which trainers leave it out of the loss: at the top level, and in
`instance_config`, the only place where NeMo-RL reads it. A masked row still counts in the baseline of its group;
therefore its `reward` is the mean of the others, as far as they are known. Clients that know none of
this take `on_failure=http`: HTTP 503 without a reward. An HTTP error ends NeMo Gym's whole collection; therefore in
the first form a row that cannot be judged is a failed row, too, and not an error.

`reward_components` are not sent: NeMo-RL ends training if they do not sum to the reward, and those of a judge (a raw
score, verdicts that are weighted) do not. They are in `judge_components`.

A row says to which group its rollout belongs, for judges that compare (`--group_size`): `_ng_group_id`, else
`_ng_task_index`, each with the attempt; and `_ng_rollout_index` says which of the group it is.

Source: NeMo Gym 0.5, for `_ng_group_id` the cohorts of its later GenRM server, and for what a trainer reads
NeMo-RL's `rollouts.py` and `environments/nemo_gym.py` (August 2026).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from judgegym.judges.core.turns import transcript, turn_of_item
from judgegym.judges.scorers.items import Item, ResponseScore, rubric_of
from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.server.answers import JUDGE_FAILED, UNUSABLE, FailureAnswers, refusal
from judgegym.server.errors import RequestError
from judgegym.server.protocols.base import Adapter, ProtocolReply, RequestBody, id_of
from judgegym.server.protocols.native import RubricField

FAILURE = "_ng_failure_class"
"""The class that `gym eval reverify --judge-failed-only` takes."""
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
_OF_OLDER_SERVERS = "reward_components"
_OF_AN_EARLIER_ANSWER = frozenset(
    {"reward", COMPONENTS, _OF_OLDER_SERVERS, MASK, "failure_kind", "failure_reason", "invalid_completion"}
)
_EARLIER_FAILURE = "_ng_failure_"
_MASKED_BY_US = "_ng_failure_masked"
"""Says that `instance_config` has its mask from us, so that it goes when the row is judged."""
_DATA_FAULTS = frozenset({"invalid", UNUSABLE})


class CreateParams(BaseModel):
    """The request that was sent to the policy."""

    model_config = ConfigDict(extra="ignore", strict=True)

    input: str | list[dict[str, object]]


class PolicyResponse(BaseModel):
    """The response of the policy: messages, reasoning, tool calls and their outputs."""

    model_config = ConfigDict(extra="ignore", strict=True)

    output: list[dict[str, object]]


class VerifyBody(RequestBody):
    """A rollout to verify, with the fields of its dataset row."""

    responses_create_params: CreateParams
    response: PolicyResponse
    question: str | None = None
    reference_answer: str | None = None
    rubric: RubricField = None
    principle: str | None = None
    judge_mount: str | None = None


class NemoGym(Adapter[VerifyBody]):
    """`POST /verify`."""

    name = "nemo_gym"
    path = "/verify"
    body = VerifyBody

    def items(self, body: VerifyBody, raw: Mapping[str, JSON]) -> list[Item]:
        """What is judged of the rollout as the response; the row's question, else the input, as the prompt.

        Raises:
            ValueError: the row cannot be echoed as JSON.
        """
        try:
            wire.dumps(raw)
        except (TypeError, RecursionError) as error:
            raise ValueError(f"the row cannot be echoed: {type(error).__name__}: {error}") from error
        rubric, levels = rubric_of(body.principle if body.rubric is None else body.rubric)
        asked = body.responses_create_params.input
        prompt = asked if isinstance(asked, str) else transcript([turn_of_item(item) for item in asked])
        return [
            Item(
                prompt if body.question is None else body.question,
                (final_answer(body.response.output),),
                reference=body.reference_answer or None,
                rubric=rubric,
                levels=levels,
                group=_group_of(raw),
                member=next((known for name in _MEMBERS if (known := id_of(raw.get(name))) is not None), None),
            )
        ]

    def reply(
        self,
        body: VerifyBody,
        raw: Mapping[str, JSON],
        results: Sequence[Sequence[ResponseScore]],
        answers: FailureAnswers,
    ) -> ProtocolReply:
        """The row with the reward and its components, or with what says that there is none.

        Raises:
            RequestError: the judge failed, and that is to be told by HTTP.
        """
        result = results[0][0]
        if result.is_failed:
            if answers.on_failure == "http":
                raise refusal(result)
            reward = answers.placeholder(result)
            return _failed_row(raw, JUDGE_FAILED, kind=result.status, reason=result.explanation, reward=reward)
        row = _without_earlier_answer(raw)
        if result.is_invalid:
            reward = answers.invalid_completion_score
            row |= {"reward": reward, "invalid_completion": True}
            return ProtocolReply(row, failed=result.status)
        components: dict[str, JSON] = {**result.components} or {"score": result.score}
        # Metrics are taken from numbers at the top level only; a field of the row keeps its name.
        numbers = {(f"judge_{name}" if name in row else name): value for name, value in components.items()}
        return ProtocolReply({**row, **numbers, "reward": result.score, COMPONENTS: components})

    def mount_of(self, raw: Mapping[str, JSON]) -> str | None:
        """The row's `judge_mount`."""
        return mount_of_row(raw)

    def is_patient(self, answers: FailureAnswers) -> bool:
        """See `Adapter`: a failed row is not verified again."""
        return answers.on_failure != "http"

    def refused(self, raw: Mapping[str, JSON], error: RequestError, answers: FailureAnswers) -> ProtocolReply:
        """A failed row, unless failures are told by HTTP.

        Raises:
            RequestError: the error, with `on_failure=http`.
        """
        if answers.on_failure == "http":
            raise error
        cause = INVALID_ROW if error.kind in _DATA_FAULTS else JUDGE_FAILED
        kind = INVALID_ROW if cause == INVALID_ROW else error.kind
        return _failed_row(raw, cause, kind=kind, reason=error.message, reward=answers.fallback_score)


def mount_of_row(raw: Mapping[str, JSON]) -> str | None:
    """The judge that a row names."""
    named = raw.get(MOUNT)
    return named if isinstance(named, str) else None


def _group_of(raw: Mapping[str, JSON]) -> str | None:
    """The id of a rollout's group: that of the caller or the number of its task, else the id of its prompt."""
    for name, attempt in _GROUPS:
        if (known := id_of(raw.get(name))) is not None:
            return f"{name}={known} attempt={id_of(raw.get(attempt)) or 0}"
    return id_of(raw.get("prompt_id"))


def final_answer(output: Sequence[Mapping[str, object]]) -> str:
    """What is judged of a rollout: its last message, or if there are tool calls all turns; empty without any text.

    With tools the messages, the calls with their arguments, and the outputs are judged, in their order: a rollout that
    ends in a call is an answer, too. Reasoning is not shown.
    """
    said = [item for item in output if item.get("type") != "reasoning"]
    turns = [turn_of_item(item) for item in said]
    if all(item.get("type", "message") == "message" for item in said):
        own = [turn for turn in turns if turn.role == "assistant"]
        return own[-1].shown if own and own[-1].text.strip() else ""
    return transcript(turns)


def _without_earlier_answer(raw: Mapping[str, JSON]) -> dict[str, JSON]:
    """The request's fields without those of an earlier answer, which a row that is verified again still has."""
    earlier = (raw.get(COMPONENTS), raw.get(_OF_OLDER_SERVERS))
    stale = _OF_AN_EARLIER_ANSWER.union(*(names for names in earlier if isinstance(names, Mapping)))
    row = {name: value for name, value in raw.items() if name not in stale and not name.startswith(_EARLIER_FAILURE)}
    config = raw.get(CONFIG)
    if raw.get(_MASKED_BY_US) is True and isinstance(config, Mapping):
        row[CONFIG] = {name: value for name, value in config.items() if name != MASK}
        if not row[CONFIG]:
            del row[CONFIG]
    return row


def _failed_row(raw: Mapping[str, JSON], cause: str, *, kind: str, reason: str, reward: float) -> ProtocolReply:
    row: dict[str, JSON] = {name: value for name, value in _without_earlier_answer(raw).items() if _is_json(value)}
    row |= {
        "reward": reward,
        MASK: True,
        "failure_kind": kind,
        "failure_reason": reason,
        FAILURE: cause,
        "_ng_failure_judge_error": reason,
    }
    config = row.get(CONFIG)
    if config is None:
        config = {}
    if isinstance(config, Mapping) and not config.get(MASK):
        row |= {CONFIG: {**config, MASK: True}, _MASKED_BY_US: True}
    if cause == INVALID_ROW:
        row["_ng_failure_terminal"] = True
    return ProtocolReply(row, failed=kind)


def _is_json(value: JSON) -> bool:
    try:
        wire.dumps(value)
    except (TypeError, RecursionError):
        return False
    return True
