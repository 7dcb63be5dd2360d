"""A simulated user: a model at its own endpoint that plays the user in a conversation.

Guarantees: it sees the conversation with the roles swapped, and the policy's texts delimited as
data. It ends a conversation by a closing line, or at the limit of its turns; the policy never sees
the closing line. Each message is seeded by the seed, the row and the turn. A message is requested
again if it is empty, cut off or refused, or has the closing line elsewhere than at its end. If
that fails, the call raises `UserFailure`; it never returns a bad message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import ClassVar

from pydantic import BaseModel, SecretStr

from judgegym.engine.settings import EnvConfig
from judgegym.engine.settings.policy import CALLS
from judgegym.judges import prompts
from judgegym.judges.config.endpoint import OPENAI, EndpointSettings, SettingNames, flat_names
from judgegym.judges.config.explaining import TextOrFile
from judgegym.judges.config.field_types import (
    BaseUrls,
    ExtraBody,
    ExtraHeaders,
    ModelName,
    ModelPrice,
    price_fields,
)
from judgegym.judges.config.fields import operational, setting
from judgegym.judges.conversations.turns import Turn, list_images
from judgegym.judges.core.delimiters import Lookalikes, delimit
from judgegym.judges.core.judgment import CallRun
from judgegym.judges.core.seeding import derive_seed
from judgegym.judges.parsing.thinking import cut_thinking
from judgegym.llm.at_once import bind_context
from judgegym.llm.client import ChatClient
from judgegym.llm.cost.models import DEFAULT_POLICY
from judgegym.llm.errors import EndpointError, UserFailure, drop_traceback
from judgegym.llm.ledger import component
from judgegym.llm.providers import ApiName
from judgegym.llm.types import ChatSettings
from judgegym.llm.wire import Choice, Message, is_blank

ROW_TEXTS = ("persona", "goal")
"""Columns of a row that the simulated user is shown."""
_CLOSING = prompts.load("user").rpartition("\n")[2]
_LOOKALIKES = Lookalikes("assistant message:", "user persona:", "user goal:")
_RETRIES = 3
_TIMEOUT_S = 600.0  # of one attempt of a call
_SEED_RANGE = 2**31
_CALLS: ContextVar[list[CallRun] | None] = ContextVar("user_calls", default=None)


class UserSettings(BaseModel, use_attribute_docstrings=True):
    """Settings of the model that plays the user."""

    help_group: ClassVar[str] = "user"

    user_persona: TextOrFile | None = setting(None)
    """Tell the simulated user who it is, in rows without a column persona; @file reads it from a
    file."""
    user_goal: TextOrFile | None = setting(None)
    """Tell the simulated user what it wants, in rows without a column goal; @file reads it from a
    file."""
    user_model_name: ModelName = setting(DEFAULT_POLICY, common=True)
    """Ask for this model at the simulated user's endpoint."""
    user_base_url: BaseUrls = operational(OPENAI, common=True)
    """Call the simulated user at this OpenAI-compatible URL; separate several replicas with
    commas."""
    user_api: ApiName = operational("openai")
    """Ask the simulated user in this form: openai, anthropic or litellm."""
    user_api_key: SecretStr | None = operational(None, fallback="user_api_key_env")
    """Send this API key to the simulated user. Prefer user_api_key_env, which keeps the key off the
    command line."""
    user_api_key_env: str = operational("OPENAI_API_KEY", common=True)
    """Read the simulated user's API key from this environment variable. Only a public host needs
    one."""
    user_temperature: float = setting(0.7, ge=0)
    """Sample the simulated user at this temperature."""
    user_max_tokens: int = setting(1024, ge=0)
    """Limit a message of the simulated user to this many tokens; 0 sends no limit. A message that
    is cut off is requested again."""
    user_max_concurrency: int = operational(64, ge=1)
    """Send the simulated user at most this many requests at once."""
    user_extra_body: ExtraBody = setting({})
    """Add these fields to each request to the simulated user."""
    user_extra_headers: ExtraHeaders = operational({})
    """Send these headers with each request to the simulated user: NAME=VALUE, or JSON. Their values
    are secrets, which no file keeps."""
    user_price: ModelPrice = operational({})
    """Report the simulated user's cost with these prices in US dollars for a million tokens:
    input=0.25,output=2, or JSON, with cached_input for those in a prefix cache. If unset, with
    those of the table of list prices, or else the cost is unknown."""

    def user_chat_settings(self, config: EnvConfig, finish_reasons: Sequence[str]) -> ChatSettings:
        """Return the settings of the simulated user's chat client.

        Args:
            config: how the policy is called.
            finish_reasons: further finish reasons that mean a whole message.

        Raises:
            SettingsError: the endpoint needs a key, and none is set.
        """
        endpoint = EndpointSettings().add(self, _NAMES, **price_fields(self.user_price))
        endpoint = endpoint.add(config, CALLS, timeout=_TIMEOUT_S, finish_reasons=finish_reasons)
        names = SettingNames(
            "the user",
            "--env.user_",
            "env.",
            prices="--env.user_price input=…,output=…",
            finish_reasons="openai.finish_reasons",
        )
        return endpoint.chat_settings(names, retry_delay=config.retry_delay)


_NAMES = flat_names(UserSettings, "user_")


class SimulatedUser:
    """Source of the user's next message."""

    def __init__(self, client: ChatClient, settings: UserSettings, seed: int) -> None:
        """Ask through `client`, which is set up by `user_chat_settings`."""
        self._client, self._settings, self._seed = client, settings, seed

    async def ask_message(
        self, uid: str, turns: Sequence[Turn], texts: Mapping[str, object], number: int
    ) -> str | None:
        """Ask for the user's next message; `None` if the user ends the conversation.

        Args:
            uid: the row's uid.
            turns: the conversation, which ends with a turn of the assistant.
            texts: the row's `persona` and `goal`, if it has them.
            number: the number of the policy's turn that the message asks for, from 1.

        Raises:
            UserFailure: the endpoint never answered, or none of its messages is usable.
        """
        settings = self._settings
        defaults = (settings.user_persona, settings.user_goal)
        user_texts = [
            str(texts.get(name) or default or "")
            for name, default in zip(ROW_TEXTS, defaults, strict=True)
        ]
        messages = make_user_prompt(turns, *user_texts)
        seed = derive_seed(self._seed, uid, f"user, turn {number}") % _SEED_RANGE
        ask = partial(
            self._client.chat,
            fresh=True,
            keep=lambda choice: read_message(choice) is not None,
            name="user",
        )
        for attempt in range(1 + _RETRIES):
            try:
                with component(f"turn_{number}"):
                    answer = await ask(messages, vote=attempt, seed=seed + attempt)
            except EndpointError as error:
                drop_traceback(error)
                _record_call(CallRun(attempts=error.attempts, usage=error.usage))
                raise UserFailure(f"{settings.user_model_name} at {error}") from None
            _record_call(CallRun(answer.latency_s, answer.attempts, answer.cached, answer.usage))
            message = read_message(answer.first)
            if message is not None:
                return message or None
        states = {"cut_off": "was cut off", "refused": "is a refusal"}
        fault = states.get(
            answer.first.state, "is empty, or has the closing line elsewhere than at its end"
        )
        if answer.first.state == "cut_off":
            if is_blank(answer.first.text):
                fault = "is empty: thinking used up its completion limit"
            fault = f"{fault} ({self._client.settings.limit_setting} raises the limit)"
        problem = f"none of its {1 + _RETRIES} messages can be used; the last one {fault}"
        url = self._client.settings.endpoints[0].redacted_url
        raise UserFailure(f"{settings.user_model_name} at {url}: {problem}")


def make_user_prompt(turns: Sequence[Turn], persona: str = "", goal: str = "") -> list[Message]:
    """Make the prompt of the user: roles are swapped, and the policy's turns are delimited.

    Instructions to the policy (`system`) are left out. Images come with the first message.
    """
    dialogue = [turn for turn in turns if turn.role in ("user", "assistant")]
    delimited = delimit(
        (persona, goal, *(turn.shown if turn.images else turn.text for turn in dialogue)),
        _LOOKALIKES,
        shared=2,
    )
    (persona, goal, *texts), tag = delimited.texts, delimited.markers.suffix
    begin, end = f"ASSISTANT MESSAGE{tag}:", f"END OF ASSISTANT MESSAGE{tag}:"
    sections = [
        f"{title}{tag}:\n{text}"
        for title, text in (("USER PERSONA", persona), ("USER GOAL", goal))
        if text
    ]
    system = prompts.fill(prompts.load("user"), {"begin": begin, "end": end})
    messages = [Message(role="system", content="\n\n".join([system, *sections]))]
    if dialogue[0].role == "user":  # chat templates want the first message of this role
        images = [
            replace(image, mark=f"[image {n}]")
            for n, image in enumerate(list_images(dialogue), start=1)
        ]
        first = Message(role="user", content="Write your first message.")
        if images:
            first["images"] = images
        messages.append(first)
    for turn, text in zip(dialogue, texts, strict=True):
        if turn.role == "user":
            messages.append(Message(role="assistant", content=text))
        else:
            messages.append(Message(role="user", content=f"{begin}\n{text}\n{end}"))
    return messages


def read_message(choice: Choice) -> str | None:
    """Return a choice's message: empty if it ends the conversation, `None` if it is unusable."""
    text = ""
    if choice.state == "whole":
        text = cut_thinking(choice.text).strip()
    before, _, last = text.rpartition("\n")
    is_over = last.strip() == _CLOSING
    word = _CLOSING.strip("[]").casefold()
    if not text or word in (before if is_over else text).casefold():
        return None
    if is_over:
        return ""
    return text


def collect_user_calls() -> AbstractContextManager[list[CallRun]]:
    """Collect the simulated users' calls that the block makes, also in tasks that it starts."""
    return bind_context(_CALLS, list[CallRun]())


def _record_call(run: CallRun) -> None:
    calls = _CALLS.get()
    if calls is not None:
        calls.append(run)
