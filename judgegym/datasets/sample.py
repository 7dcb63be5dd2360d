"""A row's responses: the policy is asked for them, and the judge about those that can be judged.

Guarantees: all responses of a row are asked for at once; one that the policy never gave, one with
malformed thinking, a refusal or an empty one has no score and its own reason, and costs no call of
a judge; the judge sees the others without their thinking, together, so that a judge that compares
responses can.

The responses that an earlier run has asked a policy for, judged by another judge.

Guarantee: a response that the policy never gave, and one that broke the format or refused, keeps
its status and its reason, has no score, and costs no call; the judge sees all others, as the
earlier judge did.

The settings of the policy that is asked for responses: those of the environments, under the same
    names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import ClassVar, cast, get_args

from pydantic import Field

from judgegym.data.rows import Row
from judgegym.datasets.files.columns import FINISH_REASON, RESPONSE, STATUS, THINKING
from judgegym.datasets.files.writer import parse_scored_row
from judgegym.datasets.rows.task import JudgedResponse, ScoreTask
from judgegym.engine.completions import (
    Completion,
    Conversation,
    Policy,
    SampledCompletion,
    system_text,
)
from judgegym.engine.records import POLICY_FAILED
from judgegym.engine.settings.env import CompletionSettings, dump_public
from judgegym.engine.settings.policy import PolicySettings
from judgegym.judges.config.fields import declared_settings, setting
from judgegym.judges.config.sources import LoadedSettings, SettingsT
from judgegym.judges.config.thinking import ThinkingSettings
from judgegym.judges.conversations.turns import Turn, split_turns
from judgegym.judges.core.judgment import Status
from judgegym.judges.core.tasks import (
    JudgeTask,
    ScoreItem,
    make_failure,
    remove_task_thinking,
    score_or_fail,
)
from judgegym.judges.parsing.thinking import ThinkingFault
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import JSON, Message

_INVALID = Status.INVALID_COMPLETION.value


@dataclass(frozen=True, slots=True)
class ResponseJudge:
    """Judges the responses of tasks: those that the data has, an earlier run has sampled, or a policy is asked for.

    Attributes:
        score: judges.
        settings: say what a judge is shown of a response that begins with its thinking.
        policy: is asked for the responses of tasks that say so.
    """

    score: ScoreItem
    settings: ThinkingSettings
    policy: Policy | None = None

    async def __call__(self, task: ScoreTask) -> Sequence[JudgedResponse]:
        """Return the responses of a task with their results, in their order; a failure is a result and no exception.

        Raises:
            UserError: what no further call can mend, such as a disk that stays full.
            BudgetSpent: no further request may be sent.
        """
        judge_task, request = remove_task_thinking(task.judge_task, self.settings), task.to_sample
        responses: Sequence[JudgedResponse] = task.earlier or [
            JudgedResponse(
                _make_completion(
                    text,
                    written or "",
                    self.settings,
                    turns=len(split_turns(text)) if trace else 0,
                )
            )
            for text, trace, written in zip_longest(
                judge_task.responses, judge_task.traces, _original_texts(judge_task)
            )
        ]
        if request is not None:
            assert self.policy is not None  # there is one in a run whose tasks are sampled
            sampled = await self.policy.sample(
                make_conversation(request.turns, self.policy.config), request.count
            )
            responses = [_make_judged_response(completion) for completion in sampled]
            # What is not judged is an empty response in its place: the judge is not asked about
            # those.
            judge_task = judge_task.replace_responses([response.text for response in responses])
        if all(response.result is not None for response in responses):
            return responses
        results = await score_or_fail(self.score, judge_task, task.uid)
        return [
            replace(response, result=result) if response.result is None else response
            for response, result in zip(responses, results, strict=True)
        ]


def _make_completion(
    text: str, written: str, settings: ThinkingSettings, *, turns: int
) -> Completion:
    """Return a response that the data has; of one with turns the thinking of none is told apart."""
    thinking = settings.hide_thinking(written).thinking if written and not turns else ""
    return Completion(text, thinking, turns=turns, written=written)


def _original_texts(task: JudgeTask) -> Sequence[str]:
    """Of each response all that the policy wrote, where thinking was taken out of it; otherwise nothing."""
    pairs = zip(task.written, task.responses, strict=False)
    return [written if written != response else "" for written, response in pairs]


def make_conversation(turns: Sequence[Turn], config: CompletionSettings) -> Conversation:
    """The messages of a prompt: its turns, after the system prompt of the settings and its own, in one message."""
    system = [
        system_text(config, "thinking_assistant"),
        *(turn.text for turn in turns if turn.role == "system"),
    ]
    text = "\n\n".join(part for part in system if part)
    messages = [turn.policy_message() for turn in turns if turn.role != "system"]
    return [Message(role="system", content=text), *messages] if text else messages


def _make_judged_response(sampled: SampledCompletion) -> JudgedResponse:
    """Return a response of the policy; it has a result already if no judge may be asked about it."""
    completion, result = sampled.completion, None
    if completion is None:
        result = make_failure(f"the policy at {sampled.error}", POLICY_FAILED)
    elif (why := completion.unjudgeable) is not None:
        result = make_failure(why, _INVALID)
    return JudgedResponse(completion, result, sampled.run)


def read_earlier_responses(row: Row) -> tuple[JudgedResponse, ...]:
    """Return the responses of a row of a file that `judgegym score --responses_per_prompt` has written.

    Raises:
        DataError: the columns of policy and judge are not of the kind that scoring writes.
    """
    scored = parse_scored_row(row)
    texts, thoughts, reasons = (
        _read_texts(row, name, len(scored.status)) for name in (RESPONSE, THINKING, FINISH_REASON)
    )
    responses = []
    for text, thought, reason, status, explanation in zip(
        texts, thoughts, reasons, scored.status, scored.explanation, strict=True
    ):
        if (text is None) != (status == POLICY_FAILED):
            raise DataError(
                f"{row.place}: a response is {'null' if text is None else 'a text'} in {RESPONSE}, "
                "and its status is "
                f"{status!r} in {STATUS}; only {POLICY_FAILED!r} has null"
            )
        result = (
            make_failure(explanation or "", status) if status in (POLICY_FAILED, _INVALID) else None
        )
        is_fault = result is not None and explanation in get_args(ThinkingFault)
        fault = cast(ThinkingFault, explanation) if is_fault else None
        responses.append(
            JudgedResponse(
                None if text is None else Completion(text, thought or "", fault, reason), result
            )
        )
    return tuple(responses)


def _read_texts(row: Row, column: str, count: int) -> Sequence[str | None]:
    value: JSON = row.values.get(column)
    if (
        not isinstance(value, list)
        or len(value) != count
        or not value
        or not all(text is None or isinstance(text, str) for text in value)
    ):
        raise row.missing_error(
            f"a list of texts in {column}, one for each of the {count} entries of {STATUS} "
            "(--rescore)"
        )
    return cast("Sequence[str | None]", value)


USED_BY = "evaluate"
"""The verb whose settings of a policy the command has; others are those of training."""
_SWITCH = "responses_per_prompt"
_SECTION = "openai"
_SHARED_WITH_JUDGE = ("max_retries", "retry_delay", "judged_thinking", "thinking_markers")
_RESPONSE_SETTINGS = ("response_column", "group_by")
_DETERMINING = ("model_name", "extra_body")


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
        used = {declared.name for declared in declared_settings(PolicySettings, verb=USED_BY)}
        section = {name: value for name, value in dump_public(self.openai).items() if name in used}
        if "api_key_env" not in self.openai.model_fields_set:
            del section[
                "api_key_env"
            ]  # a key whose variable is named in a file may be sent to any host
        return {_SECTION: section}

    def policy_matters(self) -> dict[str, JSON]:
        """Return the settings of the endpoint that determine the responses, by dotted name."""
        return dict(compared_settings(self.policy_settings))


def compared_settings(config: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return a `config.yaml` of which the policy's section is replaced by what of it determines the responses."""
    section = config.get(_SECTION)
    compared = {name: value for name, value in config.items() if name != _SECTION}
    if isinstance(section, Mapping):
        compared |= {f"{_SECTION}.{name}": section.get(name) for name in _DETERMINING}
    return compared


def list_policy_settings() -> Iterator[str]:
    """Yield the names of the settings that nothing reads if no policy is asked."""
    for declared in declared_settings(SampleSettings):
        if declared.name not in (_SWITCH, *_SHARED_WITH_JUDGE):
            yield declared.name


def check_sampling_flags(loaded: LoadedSettings[SettingsT], settings: SampleSettings) -> None:
    """Check that each flag of the command line is read.

    Args:
        loaded: where the settings were given.
        settings: the settings themselves.

    Raises:
        SettingsError: one is not; the message names all such flags, a line for each.
    """
    flags = [name for name, origin in loaded.origins.items() if origin == "command line"]
    problems = [
        f"--{declared.name}: nothing reads it: it is a setting of training"
        for declared in declared_settings(type(settings))
        if declared.name in flags and not declared.is_used_by(USED_BY)
    ]
    if settings.responses_per_prompt is None:
        unused, why = set(list_policy_settings()), f"without --{_SWITCH}"
    else:
        unused, why = (
            set(_RESPONSE_SETTINGS),
            f"with --{_SWITCH}, which asks for responses to each row",
        )
    problems += [f"--{name}: nothing reads it {why}" for name in flags if name in unused]
    if problems:
        raise SettingsError("\n".join(problems))
