"""Reward model judge: a scaled number for each response; groups and pairs by their numbers.

Guarantees: no number is made up. A response of another shape, without a finite number or with other
classes than the settings choose has no score. Role and template tokens in prompt and response are
broken up, so that a response cannot end its own turn.

A reward model's number has no scale of its own. `raw` is the model's number; the score is that
number, its sigmoid (the Bradley-Terry probability of being preferred to a response of reward 0), or
its distance from the mean of a sample in standard deviations. Only the sigmoid is from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from pydantic import model_validator
from typing_extensions import Self

from judgegym.judges.config.extras import report_missing_extra
from judgegym.judges.config.fields import operational, setting
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.conversations.turns import split_messages
from judgegym.judges.core.calls import NoVerdict, ask, failed_judgment
from judgegym.judges.core.decisions import asks_decisions, check_decision_settings
from judgegym.judges.core.judge import JudgeDefinition, SingleJudge
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.judges.parsing.verdict_parser import ParsedVerdict
from judgegym.judges.reward_models.batches import RewardBatches
from judgegym.judges.reward_models.protocols import (
    PROTOCOLS,
    AmbiguousLabel,
    RewardInput,
    RewardProtocol,
    read_number,
)
from judgegym.llm.at_once import bind_context
from judgegym.llm.cache import BYPASS_CACHE
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError, SettingsError, drop_traceback
from judgegym.llm.template_tokens import break_up_tokens
from judgegym.llm.types import ChatResponse
from judgegym.llm.wire import JSON, Choice, Message

RewardScale = Literal["sigmoid", "raw", "standardised"]
PLAIN_TEXT = "none"


class RewardModelSettings(JudgeSettings):
    """Settings of the reward model judge: server, protocol, and scaling of the number."""

    reward_protocol: RewardProtocol = setting("vllm_classify")
    """Call the reward model by this protocol: /classify, /score (prompt and response as a pair) or
    /pooling of vLLM, /classify of SGLang, or /get_reward of OpenRLHF, each below judge_base_url
    without its version."""
    reward_label: int | None = setting(None)
    """Use the number of the class with this index if the model returns several; -1 is the last
    one."""
    reward_activation: bool = setting(False)
    """Ask vLLM for the number after the model's activation (softmax or sigmoid) instead of the raw
    number."""
    reward_scale: RewardScale = setting("sigmoid")
    """Choose how the model's number becomes the score. sigmoid: from 0 to 1. raw: unchanged.
    standardised: how many times reward_deviation above reward_mean."""
    reward_mean: float | None = setting(None)
    """With reward_scale=standardised: the mean of the model's numbers over a sample."""
    reward_deviation: float | None = setting(None, gt=0)
    """With reward_scale=standardised: the standard deviation of the model's numbers over a
    sample."""
    reward_tokenizer: str | None = setting(None)
    """Render the conversation as one text with the chat template of this tokenizer (hub name or
    folder) if the server takes no messages; none: prompt and response, with a line break between
    them."""
    reward_batch: int = operational(1, ge=1)
    """Send at most this many responses in one request."""

    @model_validator(mode="after")
    def _check_reward_settings(self) -> Self:
        protocol, sample = (
            PROTOCOLS[self.reward_protocol],
            (self.reward_mean, self.reward_deviation),
        )
        takes_text = protocol.takes == "text" or (
            protocol.takes == "messages" and self.reward_batch > 1
        )
        if takes_text and self.reward_tokenizer is None:
            inputs = "one conversation per request, or texts if reward_batch is above 1"
            if protocol.takes == "text":
                inputs = "texts"
            raise ValueError(
                f"reward_tokenizer: reward_protocol={self.reward_protocol} sends {inputs}; "
                f"expected the tokenizer whose chat template makes them, or {PLAIN_TEXT}"
            )
        if protocol.takes == "pair" and self.reward_tokenizer is not None:
            raise ValueError(
                f"reward_tokenizer: reward_protocol={self.reward_protocol} sends a pair; leave it "
                "out"
            )
        if self.reward_activation and not protocol.has_activation:
            raise ValueError(
                f"reward_activation: reward_protocol={self.reward_protocol} has no activation "
                "switch"
            )
        if self.reward_activation and self.reward_scale == "sigmoid":
            raise ValueError(
                "reward_scale: sigmoid would follow the model's own activation; expected raw or "
                "standardised"
            )
        if sample.count(None) != (0 if self.reward_scale == "standardised" else 2):
            raise ValueError(
                "reward_mean: reward_scale=standardised needs it and reward_deviation, and no "
                "other scale uses them"
            )
        return self

    def scale_number(self, raw: float) -> float:
        """Scale the model's number to a score."""
        if self.reward_scale == "raw":
            return raw
        if self.reward_scale == "sigmoid":
            return 0.5 * (1.0 + math.tanh(raw / 2.0))  # this form does not overflow
        # A validator has checked it.
        assert self.reward_mean is not None and self.reward_deviation is not None
        return (raw - self.reward_mean) / self.reward_deviation


@dataclass(frozen=True, slots=True)
class RewardDetail:
    """The model's number."""

    raw: float


class RewardModelJudge(SingleJudge[RewardModelSettings, RewardDetail]):
    """Judge of responses by a reward model; a judgment's score is the model's number."""

    def __init__(
        self, settings: RewardModelSettings, client: ChatClient, rubric: str | None = None
    ) -> None:
        """Judge through `client`.

        Raises:
            SettingsError: the tokenizer cannot be loaded, or the client asks decision models.
        """
        super().__init__(settings, client, rubric)
        if asks_decisions(client):
            check_decision_settings(settings, client.settings.section, None)
        protocol = PROTOCOLS[settings.reward_protocol]
        switch = {"use_activation": settings.reward_activation} if protocol.has_activation else {}
        fields: dict[str, JSON] = {**switch, **client.settings.extra_body}
        self._batches = RewardBatches(client, protocol, settings.reward_batch, fields)
        self._parameters: dict[str, JSON] = {"path": protocol.path, **fields}
        self._text = _make_text_builder(settings.reward_tokenizer, adds_bos=protocol.adds_bos)
        client.custom_probe = self._probe

    def check(self, task: JudgeTask) -> None:
        """Check that there are no images, which the model cannot be shown."""
        if task.all_images:
            raise TaskError("images: this judge reads texts alone, so it would judge blind")

    async def judge(self, task: JudgeTask) -> Judgment[RewardDetail]:
        """Ask for the number of one response.

        The judgment's `unit` is from 0 to 1 only with the scale `sigmoid`.

        Raises:
            SettingsError: the model returns several classes, and the settings choose none of them.
        """
        prompt, response = break_up_tokens(task.prompt), break_up_tokens(task.response)
        suspects = prompt.tokens + response.tokens
        reward_input = self._make_input(prompt.text, response.text)
        if self._text is not None:
            try:
                reward_input = replace(reward_input, text=self._text(reward_input.messages))
            # A chat template refuses what it does not know, such as a system message.
            except Exception as error:  # noqa: BLE001
                why = (
                    f"the chat template of {self.settings.reward_tokenizer} refuses the "
                    f"conversation: {error}"
                )
                return Judgment(None, Status.JUDGE_FAILED, explanation=why, suspects=suspects)
        call = await ask(
            self.client, (), self._read, name="reward", chat=partial(self._chat, reward_input)
        )
        if call.value is None:
            return replace(failed_judgment([call]), suspects=suspects)
        unit = self.settings.scale_number(call.value)
        return Judgment(
            call.value,
            Status.OK,
            f"{call.value:.4g}",
            calls=(call,),
            detail=RewardDetail(call.value),
            suspects=suspects,
            unit=unit,
            components={"raw": call.value},
        )

    def _make_input(self, prompt: str, response: str) -> RewardInput:
        messages = (*split_messages(prompt), Message(role="assistant", content=response))
        return RewardInput(prompt, response, messages)

    async def _probe(self) -> ChatResponse | EndpointError:
        """Ask for the number of a short text, to test the endpoint; return a failure's error."""
        reward_input = self._make_input("Hello.", "Hello.")
        if self._text is not None:
            reward_input = replace(reward_input, text=self._text(reward_input.messages))
        try:
            with bind_context(BYPASS_CACHE, True):
                return await self._chat(reward_input, keep=lambda choice: False, name="probe")
        except EndpointError as error:
            drop_traceback(error)
            return error

    async def _chat(
        self, reward_input: RewardInput, *, keep: Callable[[Choice], bool], name: str, **_: object
    ) -> ChatResponse:
        """Send a call; votes and seeds are those of models that sample."""
        read: Sequence[Message] = reward_input.messages
        if reward_input.text:
            read = [Message(role="user", content=reward_input.text)]
        send = partial(self._batches.send, reward_input)
        return await self.client.call_other_api(send, read, self._parameters, keep=keep, name=name)

    def _read(self, choice: Choice) -> ParsedVerdict[float] | NoVerdict:
        try:
            return read_number(choice, label=self.settings.reward_label)
        except AmbiguousLabel as error:
            raise SettingsError(f"--{self.client.settings.section}reward_label: {error}") from error


def _make_text_builder(
    name: str | None, *, adds_bos: bool
) -> Callable[[Sequence[Message]], str] | None:
    """Return a function that makes one text of a conversation; `None` if it is sent as it is.

    Raises:
        SettingsError: the tokenizer cannot be loaded, or has no chat template.
    """
    if name is None:
        return None
    if name == PLAIN_TEXT:
        return lambda messages: "\n".join(message["content"] for message in messages)
    with report_missing_extra("training"):
        from transformers import AutoTokenizer  # imported late: few judges need it
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SettingsError(f"reward_tokenizer: {name!r} cannot be loaded: {why}") from error
    if tokenizer.chat_template is None:
        raise SettingsError(
            f"reward_tokenizer: {name!r} has no chat template; expected one that has, or "
            f"{PLAIN_TEXT}"
        )
    begin = ""
    if adds_bos:
        begin = tokenizer.bos_token or ""
    return lambda messages: str(
        tokenizer.apply_chat_template([*messages], tokenize=False)
    ).removeprefix(begin)


JUDGE = JudgeDefinition(
    RewardModelSettings,
    "the number of a scalar reward model behind a server",
    RewardModelJudge,
    (),
    unused_settings=frozenset(
        (
            "judge_temperature",
            "judge_max_tokens",
            "judge_output",
            "judge_critique_rounds",
            "judge_system_prompt",
        )
    ),
)
