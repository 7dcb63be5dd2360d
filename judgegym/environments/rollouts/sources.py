"""Sources of rollouts with their tokens.

Tokens come from one of three sources: a chat endpoint that returns the sampled ids and logprobs
(vLLM 0.10.2 or later; llama.cpp's server, with a separate request for the prompt's ids); Atropos'
token-level servers; or the chat template applied to the text, without logprobs, where tokens may
differ from the sampled ones.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from judgegym.engine.completions import Clients, Conversation, read_completion
from judgegym.engine.settings import EnvConfig, EnvSettings
from judgegym.environments.rollouts.groups import (
    MissingTokensError,
    Rollout,
    RolloutSource,
    TokenSequence,
    find_token_fault,
)
from judgegym.environments.rollouts.retokenize import LlamaCpp, Retokenizer
from judgegym.judges.core.judgment import CallRun
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError, FailureKind, SettingsError
from judgegym.llm.types import ChatResponse
from judgegym.llm.urls import have_same_host
from judgegym.llm.wire import JSON, Choice

logger = logging.getLogger(__name__)

_OPENAI_URL = "https://api.openai.com"
_RETOKENIZE_WARNING = (
    "%s: tokens come from the chat template applied to the text. There are no logprobs, which "
    "trainers with an importance ratio refuse, and the tokens may differ from the sampled ones"
)
TOKEN_FIELDS: Mapping[str, JSON] = {"return_token_ids": True, "logprobs": True}
"""Request fields that ask an endpoint for the tokens of a rollout."""
_LLAMA_CPP_FIELDS: Mapping[str, JSON] = {"top_logprobs": 1}
"""Saves bytes: without it llama.cpp's server returns 20 alternatives per token, and with 0 no
tokens at all."""
_RETOKENIZE_HINT = "--env.token_source=retokenize takes the tokens of the text"
_NO_TOKENS = "the endpoint returned no token ids with logprobs"
_REFUSED_MESSAGE = (
    "a completion was refused, and came without the tokens that were sampled: there is nothing of "
    "it to train, and its group is dropped"
)
_MAX_UNUSABLE = 3
"""After this many responses whose tokens are unusable, and no usable one, the endpoint counts as
having none."""
_NAME = "policy"


def open_source(
    settings: EnvSettings[Any], clients: Clients, retokenizer: Retokenizer
) -> RolloutSource:
    """Open the source that `token_source` and `server_type` name.

    Raises:
        SettingsError: an API key is missing, or the two settings contradict each other.
    """
    config, openai = settings.env, settings.openai
    is_token_server = openai.server_type != "openai"
    if config.token_source == "token_server" and not is_token_server:
        raise SettingsError(
            "--env.token_source: token_server needs --openai.server_type=vllm, sglang or trl"
        )
    if config.token_source == "token_server" or (config.token_source == "auto" and is_token_server):
        if config.budget() is not None:
            raise SettingsError(
                "--env.budget_calls, --env.budget_usd: requests to Atropos' token servers are not "
                "counted"
            )
        if openai.extra_headers:
            raise SettingsError(
                "--openai.extra_headers: Atropos' clients of token servers send no further headers"
            )
        # Late: atroposlib takes seconds to import.
        from judgegym.environments.rollouts.token_server import TokenServer

        _ = retokenizer.tokenizer  # report an error in its name before the first call
        return TokenServer(openai, config, retokenizer)
    chat_settings = openai.chat_settings(config, max_concurrency=openai.num_max_requests_at_once)
    chat_settings = replace(chat_settings, limit_setting="--env.train_max_tokens")
    settled = None if config.token_source == "auto" else config.token_source
    if openai.api != "openai" and config.token_source == "chat":
        raise SettingsError(
            "--env.token_source: chat needs --openai.api=openai; no other form returns token ids"
        )
    if settled is None and openai.api != "openai":
        settled = "retokenize"
        logger.warning(
            _RETOKENIZE_WARNING, f"openai.api={openai.api} returns no token ids and logprobs"
        )
    elif settled is None and have_same_host(",".join(openai.urls), _OPENAI_URL):
        settled = "retokenize"
        logger.warning(_RETOKENIZE_WARNING, f"{_OPENAI_URL} returns no token ids and logprobs")
    if settled == "retokenize":
        _ = retokenizer.tokenizer  # report an error in its name before the first call
    return ChatSource(clients.open("policy", chat_settings), config, retokenizer, settled=settled)


class _UnusableTokens(MissingTokensError):
    """There are tokens, but those of a completion cannot be trained on."""


class ChatSource:
    """Source that samples from a chat endpoint, with its tokens or else by the chat template.

    `token_source` decides between the two. With `auto` the endpoint's first response decides, for
    the whole run, unless all of it is refused: the endpoint gives tokens if any completion has
    usable ones, and none if it gives none at all. A completion without usable tokens costs its
    group, also the first one; if the first `_MAX_UNUSABLE` responses have no usable tokens, the run
    takes those of the text. A response with the tokens of its completions alone is taken for
    llama.cpp's. Each completion is then requested by itself: the server counts the tokens of one
    completion only, has a limited number of slots, and leaves tokens out
    (`judgegym.llm.responses.choices`), which only their number shows.
    """

    def __init__(
        self,
        client: ChatClient,
        config: EnvConfig,
        retokenizer: Retokenizer,
        *,
        settled: Literal["chat", "retokenize"] | None,
    ) -> None:
        """Sample through `client`; `settled` is the source of the tokens, `None` for `auto`."""
        self._client = client
        self._config = config
        limits = {"temperature": config.rollout_temperature, "max_tokens": config.train_max_tokens}
        self._request: Mapping[str, Any] = {**limits, "name": _NAME}
        """Parameters that all requests for rollouts have in common."""
        self._retokenizer = retokenizer
        self._settled = settled
        self._is_auto = settled is None
        self._unusable = 0
        """Number of responses with tokens, but no usable ones; counted until the source is
        settled."""
        self._llama_cpp = LlamaCpp(client)
        self._is_llama_cpp = False

    @property
    def waiting(self) -> str | None:
        """See `RolloutSource`."""
        return self._client.waiting

    def rescale(self, share: float) -> None:
        """See `RolloutSource`."""
        self._client.rescale(share)

    async def decode(self, token: int) -> str | None:
        """See `RolloutSource`."""
        return await self._retokenizer.decode_if_available(token)

    async def sample(self, conversation: Conversation, n: int) -> tuple[list[Rollout], CallRun]:
        """See `RolloutSource`."""
        answer = await self._ask(conversation, n)
        sequences = await self._endpoint_sequences(conversation, answer)
        texts = [format_assistant_turn(choice) for choice in answer.choices]
        if sequences is None:
            stopped = [choice.state == "whole" for choice in answer.choices]
            sequences = await self._retokenizer.sequences(conversation, texts, stopped=stopped)
        rollouts = [
            Rollout(read_completion(choice, self._config), sequence, text)
            for choice, sequence, text in zip(answer.choices, sequences, texts, strict=True)
        ]
        return rollouts, CallRun(answer.latency_s, answer.attempts, answer.cached, answer.usage)

    async def _endpoint_sequences(
        self, conversation: Conversation, answer: ChatResponse
    ) -> list[TokenSequence] | None:
        """Return the endpoint's own tokens; `None` if the run takes those of the text.

        Raises:
            MissingTokensError: the endpoint returned none, and the run takes no others.
        """
        if self._settled == "retokenize":
            return None
        try:
            sequences = await self._read_sequences(conversation, answer)
        except MissingTokensError as error:
            if _has_only_tokenless_refusals(answer):
                if self._may_lack_tokens(answer):
                    return None
                raise MissingTokensError(_REFUSED_MESSAGE) from error
            if self._settled == "chat":
                raise MissingTokensError(f"{error}; {_RETOKENIZE_HINT}") from error
            if self._settled is None and isinstance(error, _UnusableTokens):
                self._unusable += 1
                if self._unusable < _MAX_UNUSABLE:
                    raise
            self._settle("retokenize", str(error))
            return None
        if self._settled != "chat":  # another group may have been faster
            return None
        return sequences

    def _may_lack_tokens(self, answer: ChatResponse) -> bool:
        """Return whether a refused group may take the tokens of its text: the source is still open.

        This settles nothing for the run. It does not end the run if the tokenizer is missing, which
        may not be needed.
        """
        if (
            self._settled is not None
            or answer.prompt_token_ids
            or any(choice.token_ids for choice in answer.choices)
        ):
            return False
        try:
            _ = self._retokenizer.tokenizer
        except SettingsError:
            return False
        return True

    async def _read_sequences(
        self, conversation: Conversation, answer: ChatResponse
    ) -> list[TokenSequence]:
        """Return the tokens of all choices.

        Settle that the endpoint gives tokens if any are usable.

        Raises:
            MissingTokensError: a choice lacks ids or logprobs, or the prompt's ids are missing.
        """
        if not any(
            choice.token_ids is not None and choice.logprobs is not None
            for choice in answer.choices
        ):
            raise MissingTokensError(_NO_TOKENS)
        prompt = answer.prompt_token_ids
        if prompt is None:
            prompt = await self._llama_cpp.fetch_prompt_ids(conversation, answer.prompt_tokens)
            await self._note_llama_cpp()
        faults = [find_token_fault(choice.token_ids, choice.logprobs) for choice in answer.choices]
        if None in faults:
            self._settle("chat")
        for fault in faults:
            if fault is not None:
                raise _UnusableTokens(fault)
        return [
            TokenSequence(prompt, choice.token_ids or (), choice.logprobs or ())
            for choice in answer.choices
        ]

    async def _note_llama_cpp(self) -> None:
        """Request each completion by itself from now on, and warn about unsuitable logprobs."""
        if self._is_llama_cpp:
            return
        self._is_llama_cpp = True
        logger.info("the ids of prompts are those of llama.cpp's /apply-template and /tokenize")
        warning = await self._llama_cpp.find_logprob_mismatch(self._config.rollout_temperature)
        if warning is not None:
            logger.warning("%s", warning)

    async def _ask(self, conversation: Conversation, n: int) -> ChatResponse:
        plain = partial(self._client.chat, conversation, n=n, **self._request)
        if not self._asks_for_tokens(conversation):
            return await plain()
        try:
            unkeyed = None
            if self._is_llama_cpp:
                unkeyed = _LLAMA_CPP_FIELDS
            return await plain(extra=TOKEN_FIELDS, singly=self._is_llama_cpp, unkeyed=unkeyed)
        except EndpointError as error:
            if error.kind is not FailureKind.REJECTED:
                raise
            if self._settled == "chat":
                if any(field in error.answer for field in TOKEN_FIELDS):
                    raise MissingTokensError(f"{error}; {_RETOKENIZE_HINT}") from error
                raise
            # An endpoint that does not know the two fields refuses the request; a second refusal
            # has another reason.
            if error.status in (400, 422):
                # Report an error in its name before an answer is paid for.
                _ = self._retokenizer.tokenizer
            answer = await plain()
            self._settle(
                "retokenize", f"the endpoint refuses return_token_ids and logprobs ({error.answer})"
            )
            return answer

    def _asks_for_tokens(self, conversation: Conversation) -> bool:
        """Return whether the request has the fields for tokens.

        A recorded request decides by itself.
        """
        if self._is_auto:
            has_recorded = partial(
                self._client.has_recorded_response, conversation, **self._request
            )
            if has_recorded(extra=TOKEN_FIELDS):
                return True
            if self._settled is None and has_recorded():
                self._settle("retokenize", "the endpoint gave no usable ones when the run began")
        return self._settled != "retokenize"

    def _settle(self, source: Literal["chat", "retokenize"], reason: str = "") -> None:
        if self._settled is not None:
            return
        self._settled = source
        if source == "chat":
            logger.info("tokens and logprobs are the endpoint's own")
        else:
            logger.warning(_RETOKENIZE_WARNING, reason)
            _ = self._retokenizer.tokenizer  # one error for all groups; it ends the run


def format_assistant_turn(choice: Choice) -> str:
    """Return the whole turn; reasoning from its own field is put back into its tags."""
    if choice.reasoning is None:
        return choice.text
    reasoning = choice.reasoning.strip()
    return f"<think>\n{reasoning}\n</think>\n\n{choice.text}"


def _has_only_tokenless_refusals(answer: ChatResponse) -> bool:
    """Return whether only refused completions lack tokens; they tell nothing about the endpoint."""
    tokenless = [choice for choice in answer.choices if not _has_tokens(choice)]
    return bool(tokenless) and all(choice.state == "refused" for choice in tokenless)


def _has_tokens(choice: Choice) -> bool:
    return bool(choice.token_ids and choice.logprobs)
