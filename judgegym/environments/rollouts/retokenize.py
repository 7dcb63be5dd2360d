"""Tokens of a conversation and its answers: chat template for the prompt, tokenizer for the rest.

The tokenizer works in its own thread: a large group takes seconds and must not block the event
loop, and a tokenizer must not be used by two threads at once.

For llama.cpp's server this module also requests what its chat responses lack: the tokens of a
prompt, and how it samples. `/apply-template` returns the text that the server makes from a
conversation, and `/tokenize` the ids of a text. With special tokens parsed and added there are as
many as `usage.prompt_tokens` counts, which is checked for every response. Both endpoints are beside
the API, without `/v1`, as is `/props` with the server's defaults.

Source:
    tools/server/README.md of ggml-org/llama.cpp, and xllamacpp 2026.10.11549, tried in November
    2026.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from judgegym.data.hub import find_unreachable_reason
from judgegym.engine.completions import Conversation
from judgegym.environments.rollouts.groups import MissingTokensError, TokenSequence
from judgegym.llm import wire
from judgegym.llm.at_once import SingleFlight
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError, FailureKind, SettingsError
from judgegym.llm.responses.choices import parse_token_ids
from judgegym.llm.wire import JSON, Message

ResultT = TypeVar("ResultT")

# A text that occurs in no template, and that no template changes.
_SENTINEL = "judgegymsentinel"


class Retokenizer:
    """A policy's tokenizer, loaded at its first use."""

    def __init__(self, name: str) -> None:
        """Use the tokenizer of this name, from the hub or from a folder."""
        self.name = name
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")

    @cached_property
    def tokenizer(self) -> Any:
        """Hugging Face tokenizer.

        Raises:
            SettingsError: the tokenizer cannot be loaded.
        """
        is_local = Path(self.name).exists()
        unreachable = None
        if not is_local:
            unreachable = find_unreachable_reason()
        from transformers import AutoTokenizer  # late: evaluation needs none

        try:
            return AutoTokenizer.from_pretrained(self.name)
        except (OSError, ValueError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            if unreachable is not None:
                reason = (
                    f"the hub cannot be reached ({unreachable}), and the tokenizer is not in the "
                    "cache"
                )
            location = "of the name on the Hugging Face hub"
            if is_local:
                location = "in the folder"
            raise SettingsError(
                f"--env.tokenizer_name: no tokenizer {location} {self.name!r}: {reason}. Name the "
                "tokenizer of the policy (a hub name or a folder); an endpoint that returns token "
                "ids needs none"
            ) from error

    async def sequences(
        self, conversation: Sequence[Message], texts: Sequence[str], *, stopped: Sequence[bool]
    ) -> list[TokenSequence]:
        """Tokenize a conversation and the answers to it, without logprobs.

        Args:
            conversation: the policy's prompt.
            texts: the answers.
            stopped: whether each answer ended its turn by itself; only then the token that ends the
                turn is appended.
        """

        def tokenize() -> list[TokenSequence]:
            # return_dict=False: with transformers 5 the default is a mapping, whose length is not
            # that of the prompt.
            prompt = tuple(
                self._render(
                    conversation, add_generation_prompt=True, tokenize=True, return_dict=False
                )
            )
            encoded = self.tokenizer(  # all at once: for a batch it lets the other threads run
                list(texts),
                add_special_tokens=False,
                return_attention_mask=False,
                return_token_type_ids=False,
            )["input_ids"]
            sequences = []
            for ids, ended in zip(encoded, stopped, strict=True):
                tokens = tuple(ids)
                if ended:
                    tokens = (*tokens, self.turn_end_token)
                sequences.append(TokenSequence(prompt, tokens, None))
            return sequences

        return await self._in_thread(tokenize)

    def _render(self, messages: Sequence[Message], **options: bool) -> Any:
        """Apply the tokenizer's chat template."""
        try:
            return self.tokenizer.apply_chat_template(list(messages), **options)
        except ValueError as error:
            raise SettingsError(
                f"--env.tokenizer_name: {self.name!r} has no chat template"
            ) from error

    async def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of sequences of token ids, special tokens included."""

        def decode() -> list[str]:
            return [
                str(self.tokenizer.decode(list(ids), skip_special_tokens=False))
                for ids in sequences
            ]

        return await self._in_thread(decode)

    @property
    def is_available(self) -> bool:
        """Whether the tokenizer is loaded or in a folder, so that the hub is not needed."""
        return "tokenizer" in vars(self) or Path(self.name).exists()

    async def decode_if_available(self, token: int) -> str | None:
        """Return the text of a token; `None` if the tokenizer is not available."""
        if self.is_available:
            return (await self.decode([[token]]))[0]
        return None

    async def _in_thread(self, work: Callable[[], ResultT]) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    @cached_property
    def turn_end_token(self) -> int:
        """Token with which the template ends an assistant's turn; it may differ from `eos_token`.

        Raises:
            SettingsError: the tokenizer has no chat template, or neither template nor tokenizer
                has a token that ends a turn.
        """
        messages = [
            Message(role="user", content="hi"),
            Message(role="assistant", content=_SENTINEL),
        ]
        rendered = str(self._render(messages, tokenize=False))
        after = rendered.rpartition(_SENTINEL)[2]
        ids = []
        if after.strip():
            ids = self.tokenizer.encode(after.lstrip(), add_special_tokens=False)
        special = set(self.tokenizer.all_special_ids) | set(
            self.tokenizer.get_added_vocab().values()
        )
        if ids and ids[0] in special:
            return int(ids[0])
        if self.tokenizer.eos_token_id is None:
            raise SettingsError(
                f"--env.tokenizer_name: {self.name!r} has no token that ends a turn"
            )
        return int(self.tokenizer.eos_token_id)


_MAX_PROMPTS = 1024

_NEUTRAL: Mapping[str, float] = {
    "top_k": 0,
    "top_p": 1,
    "min_p": 0,
    "typical_p": 1,
    "top_n_sigma": -1,
    "xtc_probability": 0,
    "repeat_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "dry_multiplier": 0,
    "dynatemp_range": 0,
    "mirostat": 0,
}
"""Sampler parameters, with the values at which each changes nothing."""
_DEFAULTS: Mapping[str, JSON] = {**_NEUTRAL, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
_CONSTRAINTS = ("grammar", "json_schema", "response_format", "logit_bias")


class LlamaCpp:
    """A policy's llama.cpp servers; each distinct conversation is tokenized once."""

    def __init__(self, client: ChatClient) -> None:
        """Ask through the policy's client, with its limits, retries and deadlines."""
        self._client = client
        self._flights: SingleFlight[tuple[int, ...]] = SingleFlight()
        self._prompts: OrderedDict[str, tuple[int, ...]] = OrderedDict()

    async def fetch_prompt_ids(self, conversation: Conversation, counted: int) -> tuple[int, ...]:
        """Return the token ids of a conversation's prompt.

        Args:
            conversation: the conversation that the policy answered.
            counted: the number of prompt tokens that the server counted in its response.

        Raises:
            MissingTokensError: the server is no llama.cpp, or makes another prompt of the
                conversation than it has answered.
            EndpointError: the server never answered.
        """
        if not counted:
            raise MissingTokensError(
                "the endpoint does not count the tokens of a prompt: which ones it has answered is "
                "not known"
            )
        key = hashlib.blake2b(
            wire.dumps(wire.messages_json(conversation)), digest_size=16
        ).hexdigest()
        ids = self._prompts.get(key, ())
        # Kept ids are wrong, too, if the server was restarted and makes another prompt since.
        if len(ids) != counted:
            ids = await self._fetch_shared(key, conversation)
            self._prompts[key] = ids
        self._prompts.move_to_end(key)
        if len(self._prompts) > _MAX_PROMPTS:
            self._prompts.popitem(last=False)
        if len(ids) != counted:
            made = len(ids)
            raise MissingTokensError(
                f"the endpoint counted {counted} tokens of a prompt in its answer, and "
                f"/apply-template and /tokenize make {made} of the same conversation: which ones "
                "it has answered is not known"
            )
        return ids

    async def _fetch_shared(self, key: str, conversation: Conversation) -> tuple[int, ...]:
        """Request the tokens of a conversation, once for all groups that ask at the same time."""
        try:
            ids, _ = await self._flights.run(key, partial(self._tokenize, conversation))
        except EndpointError as error:
            if error.kind is not FailureKind.REJECTED:
                raise error.make_shared_error() from error
            raise MissingTokensError(
                "the endpoint returns no ids of the prompt, and llama.cpp's /apply-template and "
                f"/tokenize are not beside it: {error}"
            ) from error
        return ids

    async def _tokenize(self, conversation: Conversation) -> tuple[int, ...]:
        # The fields of the chat request: some, such as chat_template_kwargs, change the prompt.
        body: dict[str, JSON] = {
            **self._client.settings.extra_body,
            "messages": wire.messages_json(conversation),
        }
        text = wire.lookup(await self._client.request_json("/apply-template", body), "prompt")
        if not isinstance(text, str):
            raise MissingTokensError("/apply-template returns no prompt")
        tokens = await self._client.request_json(
            "/tokenize", {"content": text, "add_special": True, "parse_special": True}
        )
        ids = parse_token_ids(wire.lookup(tokens, "tokens"))
        if ids is None:
            raise MissingTokensError("/tokenize returns no token ids")
        return ids

    async def find_logprob_mismatch(self, temperature: float) -> str | None:
        """Return why the logprobs are not those of the sampling distribution, and how to fix it.

        `None` if they are. The server's logprobs are of all tokens at temperature 1, before any
        sampler; a trainer's importance ratio needs those of the sampling distribution.
        """
        extra = self._client.settings.extra_body
        try:
            props = wire.lookup(
                await self._client.request_json("/props"), "default_generation_settings.params"
            )
        except EndpointError:
            # Switched off, or behind a proxy: the server's built-in defaults are likely.
            props = None
        used = {**_DEFAULTS, **(props if isinstance(props, Mapping) else {}), **extra}
        cut = {name: value for name, value in _NEUTRAL.items() if used.get(name) != value}
        remedies = []
        if cut:
            body = wire.dumps({**extra, **cut}).decode()
            remedies.append(f"--openai.extra_body='{body}'")
        if temperature != 1:
            remedies.append("--env.rollout_temperature=1")
        constraints = [name for name in _CONSTRAINTS if extra.get(name)]
        if constraints:
            fields = ", ".join(constraints)
            remedies.append(f"an --openai.extra_body without {fields}")
        if not remedies:
            return None
        remedy = " and ".join(remedies)
        return (
            "llama.cpp's logprobs are of all tokens at temperature 1, and the policy is sampled "
            f"otherwise, so a trainer's importance ratio is wrong; set {remedy}"
        )
