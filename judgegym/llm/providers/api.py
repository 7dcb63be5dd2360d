"""Differences between the providers' APIs: path, headers, and the request and response formats.

Everything else is shared: requests are made and responses are read in OpenAI's format
(`judgegym.llm.responses`), by one transport with one set of limits, deadlines, retries, budgets and
ledgers. An `Api` translates in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from judgegym.llm.errors import SettingsError
from judgegym.llm.responses.outcome import RawResponse
from judgegym.llm.usage import Prices
from judgegym.llm.wire import JSON

if TYPE_CHECKING:
    from judgegym.llm.types import Endpoint

ApiName = Literal["openai", "anthropic", "litellm", "decisions"]


class Api:
    """OpenAI's API, which needs no translation; the base class of the others.

    Attributes:
        name: the value of the setting.
        path: the path of requests below the base URL, which may already end with it.
        is_in_process: whether `send` sends requests instead of our own HTTP session.
        takes_n: whether it accepts `n`; otherwise each choice is requested singly.
        takes_seed: whether it accepts seeds; otherwise they are left out.
        takes_sampling: whether it accepts a temperature and a token limit; otherwise they are left
            out.
        probe_fields: further fields of the request that tests an endpoint.
        key_header: the header of the API key.
        key_prefix: the text before the key in the header.
        fixed_headers: the headers of every request, without secrets.
    """

    name: ApiName = "openai"
    path = "/chat/completions"
    is_in_process = False
    takes_n = True
    takes_seed = True
    takes_sampling = True
    probe_fields: Mapping[str, JSON] = {}
    key_header = "Authorization"
    key_prefix = "Bearer "
    fixed_headers: Mapping[str, str] = {"Content-Type": "application/json"}

    def request(self, body: Mapping[str, JSON], cached: Sequence[int] = ()) -> Mapping[str, JSON]:
        """Return the body to send.

        Args:
            body: the request in OpenAI's format.
            cached: the ends of the prefixes of its text (`prompt_text`) that the endpoint should
                cache.

        Raises:
            SettingsError: it has a field that the API does not accept.
        """
        return body

    def response(self, body: JSON) -> JSON:
        """Translate a received body to OpenAI's format; other bodies stay as they are.

        Raises:
            NotACompletion: it has another API's format.
        """
        return body

    def prices(self, prices: Prices) -> Prices:
        """Return the prices, completed by prefix-cache prices that follow from the prompt price."""
        return prices

    def shortest_prefix(self, model: str) -> int | None:
        """Return the shortest prefix worth marking, in tokens; `None` if none is marked."""
        return None

    def prompt_text(self, body: Mapping[str, JSON]) -> str:
        """Return all that the prefix cache compares, in order.

        Requests whose prompts begin alike have texts that begin alike.
        """
        return ""

    def check(self, fields: Mapping[str, JSON], where: str) -> None:
        """Check fields of requests; `where` is the setting that adds them, or the model.

        Raises:
            SettingsError: the API does not accept one of them.
        """
        try:
            self.request({"model": "", "messages": [], **fields})
        except SettingsError as error:
            raise SettingsError(f"{where}: {error}") from None

    async def send(
        self, body: Mapping[str, JSON], endpoint: Endpoint, timeout_s: float
    ) -> RawResponse:
        """Send a request that does not use our own HTTP session.

        Raises:
            OSError: there was no response.
        """
        raise NotImplementedError(self.name)
