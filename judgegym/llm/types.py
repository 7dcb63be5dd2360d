"""The settings of a chat client and the answer to a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from judgegym.llm.completion import KNOWN_WORDS_ALONE, FinishRules
from judgegym.llm.replicas import Endpoint
from judgegym.llm.usage import Prices, Usage
from judgegym.llm.wire import JSON, Choice


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """A model, and how to call it.

    Attributes:
        endpoints: the replicas that serve it, one or more.
        temperature: sampling temperature; `None` leaves it out.
        max_tokens: longest completion in tokens; 0 leaves it out.
        extra_body: further fields of the request's body.
        timeout_s: seconds for one attempt.
        deadline_s: seconds for a call with its retries, from its first attempt; those in which the endpoint was away do
            not count.
        away_deadline_s: seconds to wait for an endpoint that is away.
        start_deadline_s: seconds to wait for one that has never answered; a call then raises `EndpointOutage`. `None`:
            it is one that is away.
        rejected_deadline_s: seconds to probe an endpoint that rejects the account (`breaker.py`); a call then raises
            `EndpointOutage`. `None`: each rejected request is a failed call.
        max_retries: requests after the first; waiting for an endpoint that is busy or away is no retry.
        retry_delay_s: upper bound of the first pause before a retry.
        max_concurrency: requests in flight.
        requests_per_minute: rate budget; `None` for none.
        tokens_per_minute: rate budget; `None` for none.
        n_is_ignored: the endpoint returns one choice whatever `n` is; detected at the first such answer if not set.
        finish_rules: which answers are whole.
        prices: US dollars for a million tokens.
        identity: the endpoint's name in the cache's key; its first base URL by default.
        title: what the endpoint is, in messages.
        section: prefix of its settings on the command line, for messages.
        url_setting: the setting that names the endpoints on the command line, for messages.
        price_settings: what the names of the settings of its prices begin with on the command line, for messages.
    """

    endpoints: tuple[Endpoint, ...]
    temperature: float | None = None
    max_tokens: int = 0
    extra_body: Mapping[str, JSON] = field(default_factory=dict)
    timeout_s: float = 600.0
    deadline_s: float = 1800.0
    away_deadline_s: float = 600.0
    start_deadline_s: float | None = None
    rejected_deadline_s: float | None = None
    max_retries: int = 100
    retry_delay_s: float = 1.0
    max_concurrency: int = 256
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    n_is_ignored: bool = False
    finish_rules: FinishRules = KNOWN_WORDS_ALONE
    prices: Prices = field(default_factory=Prices)
    identity: str = ""
    title: str = "the model"
    section: str = ""
    url_setting: str = "base_url"
    price_settings: str = "price_"


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """The answer to one call.

    Attributes:
        choices: as many as were asked for.
        usage: tokens and cost; all zero if the answer was paid for before (`cached`).
        latency_s: seconds from the first attempt to the answer, with the pauses but not the time in which the endpoint
            was away.
        attempts: requests sent.
        cached: the answer came from the cache, or from an identical call in flight.
        prompt_token_ids: the prompt's tokens, if requested and returned.
        prompt_tokens: how many tokens the prompt has, as the endpoint counted them; 0 if it did not.
    """

    choices: tuple[Choice, ...]
    usage: Usage = Usage()
    latency_s: float = 0.0
    attempts: int = 0
    cached: bool = False
    prompt_token_ids: tuple[int, ...] | None = None
    prompt_tokens: int = 0

    @property
    def first(self) -> Choice:
        """The first choice, the only one unless `n` was greater than 1."""
        return self.choices[0]
