"""Sample a row's responses from a policy, and judge those that can be judged.

Guarantees: all responses of a row are sampled at once. A response is not sent to the judge, and has
no score but its own reason, if the policy failed, its thinking is malformed, it is a refusal, or it
is empty. The judge sees the others without their thinking and together, so that it can compare
them.

The responses that an earlier run has sampled can be judged by another judge. A response that was
not judged then keeps its status and reason, has no score and costs no call; the judge sees the same
responses as the earlier judge.

The settings of the policy are those of the environments, under the same names.
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
    TaskScorer,
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
    """Judges the responses of tasks: from the data, from an earlier run, or from a policy.

    Attributes:
        score: the judge.
        settings: say what a judge is shown of a response that begins with its thinking.
        policy: samples the responses of tasks with `to_sample`.
    """

    score: TaskScorer
    settings: ThinkingSettings
    policy: Policy | None = None

    async def __call__(self, task: ScoreTask) -> Sequence[JudgedResponse]:
        """Judge the responses of a task, in their order; a failure is a judgment, not an exception.

        Raises:
            UserError: retrying cannot help, such as with a disk that stays full.
            BudgetSpent: no further request may be sent.
        """
        judge_task = remove_task_thinking(task.judge_task, self.settings)
        request = task.to_sample
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
            assert self.policy is not None  # a run whose tasks are sampled has a policy
            sampled = await self.policy.sample(
                make_conversation(request.turns, self.policy.config), request.count
            )
            responses = [_make_judged_response(completion) for completion in sampled]
            # A response that is not judged is an empty text, which is not sent to the judge.
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
    """Return a response of the data; thinking is not split off from a response with turns."""
    thinking = settings.hide_thinking(written).thinking if written and not turns else ""
    return Completion(text, thinking, turns=turns, written=written)


def _original_texts(task: JudgeTask) -> Sequence[str]:
    """Return each response's original text if thinking was split off; else an empty text."""
    pairs = zip(task.written, task.responses, strict=False)
    return [written if written != response else "" for written, response in pairs]


def make_conversation(turns: Sequence[Turn], config: CompletionSettings) -> Conversation:
    """Return a prompt as messages; the settings' system prompt and its own are joined to one."""
    system = [
        system_text(config, "thinking_assistant"),
        *(turn.text for turn in turns if turn.role == "system"),
    ]
    text = "\n\n".join(part for part in system if part)
    messages = [turn.policy_message() for turn in turns if turn.role != "system"]
    if text:
        return [Message(role="system", content=text), *messages]
    return messages


def _make_judged_response(sampled: SampledCompletion) -> JudgedResponse:
    """Return a response of the policy; it has a judgment already if it must not be judged."""
    completion, result = sampled.completion, None
    if completion is None:
        result = make_failure(f"the policy at {sampled.error}", POLICY_FAILED)
    elif (why := completion.unjudgeable) is not None:
        result = make_failure(why, _INVALID)
    return JudgedResponse(completion, result, sampled.run)


def read_earlier_responses(row: Row) -> tuple[JudgedResponse, ...]:
    """Read the responses of a row that `judgegym score --responses_per_prompt` has written.

    Raises:
        DataError: the columns of policy and judge are not what scoring writes.
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
            kind = "null" if text is None else "a text"
            raise DataError(
                f"{row.place}: a response is {kind} in {RESPONSE}, and its status is {status!r} in "
                f"{STATUS}; only {POLICY_FAILED!r} has null"
            )
        result = None
        if status in (POLICY_FAILED, _INVALID):
            result = make_failure(explanation or "", status)
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
"""The verb whose policy settings the command has; others belong to training."""
_SWITCH = "responses_per_prompt"
_SECTION = "openai"
_SHARED_WITH_JUDGE = ("max_retries", "retry_delay", "judged_thinking", "thinking_markers")
_RESPONSE_SETTINGS = ("response_column", "group_by")
_DETERMINING = ("model_name", "extra_body")


class SampleSettings(CompletionSettings):
    """Settings of the policy that samples responses."""

    help_group: ClassVar[str] = "policy"

    responses_per_prompt: int | None = setting(None, ge=1)
    """Sample this many responses to each prompt from the policy (--openai.…), and judge them;
    responses in the data stay as they are, and are not judged. If unset, they are judged."""
    openai: PolicySettings = Field(default_factory=PolicySettings)

    @property
    def policy_settings(self) -> dict[str, JSON]:
        """The policy's settings for `config.yaml`, without secrets; empty without a policy."""
        if self.responses_per_prompt is None:
            return {}
        used = {declared.name for declared in declared_settings(PolicySettings, verb=USED_BY)}
        section = {name: value for name, value in dump_public(self.openai).items() if name in used}
        if "api_key_env" not in self.openai.model_fields_set:
            del section[
                "api_key_env"
            ]  # a file that names the key's variable could send the key to any host
        return {_SECTION: section}

    def policy_matters(self) -> dict[str, JSON]:
        """Return the endpoint's settings that determine the responses, by dotted name."""
        return dict(compared_settings(self.policy_settings))


def compared_settings(config: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Replace a config's policy section by its settings that determine the responses."""
    section = config.get(_SECTION)
    compared = {name: value for name, value in config.items() if name != _SECTION}
    if isinstance(section, Mapping):
        compared |= {f"{_SECTION}.{name}": section.get(name) for name in _DETERMINING}
    return compared


def list_policy_settings() -> Iterator[str]:
    """Yield the names of the settings that are unused without a policy."""
    for declared in declared_settings(SampleSettings):
        if declared.name not in (_SWITCH, *_SHARED_WITH_JUDGE):
            yield declared.name


def check_sampling_flags(loaded: LoadedSettings[SettingsT], settings: SampleSettings) -> None:
    """Check that each flag of the command line is used.

    Args:
        loaded: says where each setting was set.
        settings: the settings themselves.

    Raises:
        SettingsError: flags are unused; the message names each on a line.
    """
    flags = [name for name, origin in loaded.origins.items() if origin == "command line"]
    set_here = [field for field in declared_settings(type(settings)) if field.name in flags]
    problems = [
        f"--{declared.name}: nothing reads it: it is a setting of training"
        for declared in set_here
        if not declared.is_used_by(USED_BY)
    ]
    if settings.responses_per_prompt is None:
        unused = set(list_policy_settings())
        why = f"without --{_SWITCH}"
    else:
        unused = set(_RESPONSE_SETTINGS)
        why = f"with --{_SWITCH}, which asks for responses to each row"
    problems += [f"--{name}: nothing reads it {why}" for name in flags if name in unused]
    if problems:
        raise SettingsError("\n".join(problems))
