"""A row's responses: the policy is asked for them, and the judge about those that can be judged.

Guarantees: all responses of a row are asked for at once; one that the policy never gave, one with malformed thinking, a
refusal or an empty one has no score and its own reason, and costs no call of a judge; the judge sees the others without
their thinking, together, so that a judge that compares responses can.

A response and what became of it, whether the data has it or a policy was asked for it.

The responses that an earlier run has asked a policy for, judged by another judge.

Guarantee: a response that the policy never gave, and one that broke the format or refused, keeps its status and its
reason, has no score, and costs no call; the judge sees all others, as the earlier judge did.

The settings of the policy that is asked for responses: those of the environments, under the same names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, TypeAlias, cast, get_args

from pydantic import Field

from judgegym.data.rows import Row
from judgegym.datasets.files.columns import FINISH_REASON, RESPONSE, STATUS, THINKING
from judgegym.datasets.files.writer import scored_row
from judgegym.datasets.rows.task import EarlierResponse, ScoreTask
from judgegym.engine.completions import Completion, Conversation, Policy, SampledCompletion, system_text
from judgegym.engine.records import POLICY_FAILED
from judgegym.engine.settings.env import CompletionSettings, without_secrets
from judgegym.engine.settings.policy import PolicySettings
from judgegym.judges.config.fields import declared_settings, setting
from judgegym.judges.config.sources import LoadedSettings, SettingsT
from judgegym.judges.core.judgment import CallRun, Status
from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment, ScoreItem, failure, results_of
from judgegym.judges.core.turns import Turn
from judgegym.judges.parsing.thinking import ThinkingFault
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import JSON, Message


class JudgeElsewhere(Protocol):
    """Scores items in other processes."""

    async def __call__(self, task: JudgeTask) -> list[ResponseJudgment]:
        """The judgments of a task's responses, as `judge_responses` gives them."""

    @property
    def waiting(self) -> str | None:
        """What all items wait for, in one sentence; `None` otherwise."""


@dataclass(frozen=True, slots=True)
class JudgedResponse:
    """A response with its score.

    Attributes:
        completion: the response; `None` if the policy never gave it.
        result: what the judge said, or why it was not asked.
        policy_call: what the policy's answer has cost; `None` if no policy was asked, or another response says it.
    """

    completion: Completion | None
    result: ResponseJudgment
    policy_call: CallRun | None = None


FinishUnit: TypeAlias = Callable[[ScoreTask], Awaitable[list[JudgedResponse]]]
"""Gives the judged responses of a task, in their order; a failure is a result and no exception."""


class ResponseJudge:
    """Judges the responses that the data has."""

    def __init__(self, score: ScoreItem) -> None:
        """Judge by `score`."""
        self._score = score

    async def __call__(self, task: ScoreTask) -> list[JudgedResponse]:
        """See `FinishUnit`."""
        results = await self.results(task.uid, task.judge_task)
        return [
            JudgedResponse(Completion(response), result)
            for response, result in zip(task.judge_task.responses, results, strict=True)
        ]

    async def results(self, uid: str, task: JudgeTask) -> list[ResponseJudgment]:
        """The judgments of a task's responses.

        Raises:
            UserError: what no further call can mend, such as a disk that stays full.
        """
        return await results_of(self._score, task, uid)


class PolicySampler:
    """Asks for the responses of tasks, and judges them."""

    def __init__(self, policy: Policy, judging: ResponseJudge) -> None:
        """Ask `policy`, and judge by `judging`."""
        self._policy, self._judging = policy, judging

    async def __call__(self, task: ScoreTask) -> list[JudgedResponse]:
        """See `FinishUnit`; the task has no responses yet.

        Raises:
            UserError: what no further call can mend, such as a disk that stays full.
            BudgetSpent: no further request may be sent.
        """
        asked = task.to_sample
        assert asked is not None  # the tasks of a run that samples are made so
        conversation = conversation_of(asked.turns, self._policy.config)
        sampled = await self._policy.sample(conversation, asked.count)
        known = [_without_judge(each) for each in sampled]
        # What is not judged is an empty response in its place: the judge is not asked about those.
        texts = tuple("" if result is not None else _answer(each) for each, result in zip(sampled, known, strict=True))
        judged: Sequence[ResponseJudgment | None] = known
        if any(texts):
            judged = await self._judging.results(task.uid, replace(task.judge_task, responses=texts))
        results = (cast(ResponseJudgment, mine or others) for mine, others in zip(known, judged, strict=True))
        return [
            JudgedResponse(each.completion, result, each.run) for each, result in zip(sampled, results, strict=True)
        ]


def conversation_of(turns: Sequence[Turn], config: CompletionSettings) -> Conversation:
    """The messages of a prompt: its turns, after the system prompt of the settings and its own, in one message."""
    system = [system_text(config, "thinking_assistant"), *(turn.text for turn in turns if turn.role == "system")]
    text = "\n\n".join(part for part in system if part)
    rest = [cast(Message, turn.message()) for turn in turns if turn.role != "system"]
    return [Message(role="system", content=text), *rest] if text else rest


def _answer(sampled: SampledCompletion) -> str:
    return "" if sampled.completion is None else sampled.completion.answer


def _without_judge(sampled: SampledCompletion) -> ResponseJudgment | None:
    """The result of a response that no judge may be asked about; `None` for any other."""
    if sampled.completion is None:
        return failure(f"the policy at {sampled.error}", POLICY_FAILED)
    why = sampled.completion.unjudgeable
    return None if why is None else failure(why, Status.INVALID_COMPLETION.value)


_INVALID = Status.INVALID_COMPLETION.value


def earlier_responses(row: Row) -> tuple[EarlierResponse, ...]:
    """The responses of a row of a file that `judgegym score --responses_per_prompt` has written.

    Raises:
        DataError: the columns of policy and judge are not of the kind that scoring writes.
    """
    scored = scored_row(row)
    texts = _texts(row, RESPONSE, len(scored.status))
    thoughts, reasons = (_texts(row, name, len(texts)) for name in (THINKING, FINISH_REASON))
    found = []
    for text, thought, reason, status, said in zip(
        texts, thoughts, reasons, scored.status, scored.explanation, strict=True
    ):
        if (text is None) != (status == POLICY_FAILED):
            raise DataError(
                f"{row.place}: a response is {'null' if text is None else 'a text'} in {RESPONSE}, and its status is "
                f"{status!r} in {STATUS}; only {POLICY_FAILED!r} has null"
            )
        is_kept = status in (POLICY_FAILED, _INVALID)
        kept = (status, said or "") if is_kept else (None, "")
        found.append(EarlierResponse(text, thought or "", reason, *kept))
    return tuple(found)


def _texts(row: Row, column: str, count: int) -> Sequence[str | None]:
    value: JSON = row.values.get(column)
    if (
        not isinstance(value, list)
        or len(value) != count
        or not value
        or not all(each is None or isinstance(each, str) for each in value)
    ):
        raise row.lacks(f"a list of texts in {column}, one for each of the {count} entries of {STATUS} (--rescore)")
    return cast("Sequence[str | None]", value)


class JudgingEarlier:
    """Judges the responses of an earlier run."""

    def __init__(self, judging: ResponseJudge) -> None:
        """Judge by `judging`."""
        self._judging = judging

    async def __call__(self, task: ScoreTask) -> list[JudgedResponse]:
        """See `FinishUnit`.

        Raises:
            UserError: what no further call can mend, such as a disk that stays full.
            BudgetSpent: no further request may be sent.
        """
        judged: Sequence[ResponseJudgment | None] = [None] * len(task.earlier)
        if any(task.judge_task.responses):
            judged = await self._judging.results(task.uid, task.judge_task)
        known = map(_result, task.earlier)
        results = (cast(ResponseJudgment, mine or others) for mine, others in zip(known, judged, strict=True))
        return [JudgedResponse(_completion(each), result) for each, result in zip(task.earlier, results, strict=True)]


def _result(earlier: EarlierResponse) -> ResponseJudgment | None:
    """The result of a response that no judge may be asked about; `None` for any other."""
    return None if earlier.status is None else failure(earlier.reason, earlier.status)


def _completion(earlier: EarlierResponse) -> Completion | None:
    if earlier.text is None:
        return None
    fault = cast(ThinkingFault, earlier.reason) if earlier.reason in get_args(ThinkingFault) else None
    return Completion(earlier.text, earlier.thinking, fault, earlier.finish_reason)


USED_BY = "evaluate"
"""The verb whose settings of a policy the command has; others are those of training."""
_SWITCH = "responses_per_prompt"
_SECTION = "openai"
_OF_THE_JUDGE_TOO = ("max_retries", "retry_delay")
_OF_RESPONSES = ("response_column", "group_by")
_THAT_MATTER = ("model_name", "extra_body")


class SampleSettings(CompletionSettings):
    """Whether a policy is asked for responses, and how."""

    help_group: ClassVar[str] = "policy"

    responses_per_prompt: int | None = setting(None, ge=1)
    """Ask the policy (--openai.…) for this many responses to each prompt first, and judge them; responses that the data
    has are left as they are. If unset, the data's own responses are judged."""
    openai: PolicySettings = Field(default_factory=PolicySettings)

    @property
    def policy_settings(self) -> dict[str, JSON]:
        """The settings of the policy for `config.yaml`, without secrets; empty if none is asked."""
        if self.responses_per_prompt is None:
            return {}
        used = {each.name for each in declared_settings(PolicySettings, verb=USED_BY)}
        section = {name: value for name, value in without_secrets(self.openai).items() if name in used}
        if "api_key_env" not in self.openai.model_fields_set:
            del section["api_key_env"]  # a key whose variable is named in a file may be sent to any host
        return {_SECTION: section}

    def policy_matters(self) -> dict[str, JSON]:
        """The settings of the endpoint that determine the responses, by dotted name."""
        return dict(compared_settings(self.policy_settings))


def compared_settings(config: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """A `config.yaml` of which the policy's section is replaced by what of it determines the responses."""
    section = config.get(_SECTION)
    found = {name: value for name, value in config.items() if name != _SECTION}
    if isinstance(section, Mapping):
        found |= {f"{_SECTION}.{name}": section.get(name) for name in _THAT_MATTER}
    return found


def of_policy_alone() -> Iterator[str]:
    """The names of the settings that nothing reads if no policy is asked."""
    for declared in declared_settings(SampleSettings):
        if declared.name not in (_SWITCH, *_OF_THE_JUDGE_TOO):
            yield declared.name


def check_sampling_flags(loaded: LoadedSettings[SettingsT], settings: SampleSettings) -> None:
    """Check that each flag of the command line is read.

    Args:
        loaded: where the settings were given.
        settings: the settings themselves.

    Raises:
        SettingsError: one is not; the message names all such flags, a line for each.
    """
    given = [name for name, origin in loaded.origins.items() if origin == "command line"]
    refused = [
        f"--{declared.name}: nothing reads it: it is a setting of training"
        for declared in declared_settings(type(settings))
        if declared.name in given and not declared.is_used_by(USED_BY)
    ]
    if settings.responses_per_prompt is None:
        unread, why = set(of_policy_alone()), f"without --{_SWITCH}"
    else:
        unread, why = set(_OF_RESPONSES), f"with --{_SWITCH}, which asks for responses to each row"
    refused += [f"--{name}: nothing reads it {why}" for name in given if name in unread]
    if refused:
        raise SettingsError("\n".join(refused))
