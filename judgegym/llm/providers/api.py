"""What differs between the APIs of providers: path, headers, the form of a request and of its response.

Everything else is shared: a request is made in OpenAI's form, and its response is read in OpenAI's
form (`judgegym.llm.responses`), by one transport with one set of limits, deadlines, retries,
budgets and ledgers. An `Api` translates in between.
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

ApiName = Literal["openai", "anthropic", "litellm"]


class Api:
    """OpenAI's form, which needs no translation; the base of the others.

    Attributes:
        name: the value of the setting.
        path: of a request, below the base URL; a base URL may end with it.
        is_in_process: requests are sent by `send`, and not by our own HTTP session.
        takes_n: it takes `n`; otherwise each choice is asked for by itself.
        takes_seed: it takes seeds; otherwise those of votes are left out.
        key_header: the header of the API key.
        key_prefix: stands before the key there.
        fixed_headers: the headers of every request that are no secrets.
    """

    name: ApiName = "openai"
    path = "/chat/completions"
    is_in_process = False
    takes_n = True
    takes_seed = True
    key_header = "Authorization"
    key_prefix = "Bearer "
    fixed_headers: Mapping[str, str] = {"Content-Type": "application/json"}

    def request(self, body: Mapping[str, JSON], cached: Sequence[int] = ()) -> Mapping[str, JSON]:
        """Return the body to send.

        Args:
            body: the request in OpenAI's form.
            cached: where beginnings of its text (`prompt_text`) end that the endpoint is to keep in
                its prefix cache.

        Raises:
            SettingsError: it has a field that the API does not take.
        """
        return body

    def response(self, body: JSON) -> JSON:
        """Return the body that was received, in OpenAI's form; one that is no completion stays as it is.

        Raises:
            NotACompletion: it has the form of another API.
        """
        return body

    def prices(self, prices: Prices) -> Prices:
        """Return the prices, with those of the prefix cache that follow from the price of prompt tokens."""
        return prices

    def shortest_prefix(self, model: str) -> int | None:
        """Return the fewest tokens that a marked beginning must have to be kept; `None` if none is to be marked."""
        return None

    def prompt_text(self, body: Mapping[str, JSON]) -> str:
        """All that the prefix cache compares, in its order. Requests whose prompts begin alike have texts that do."""
        return ""

    def check(self, fields: Mapping[str, JSON], where: str) -> None:
        """Check fields of requests; `where` is the setting that adds them, or the model.

        Raises:
            SettingsError: the API does not take one of them.
        """
        try:
            self.request({"model": "", "messages": [], **fields})
        except SettingsError as error:
            raise SettingsError(f"{where}: {error}") from None

    async def send(
        self, body: Mapping[str, JSON], endpoint: Endpoint, timeout_s: float
    ) -> RawResponse:
        """Send a request that is not sent over our own session.

        Raises:
            OSError: there was no response.
        """
        raise NotImplementedError(self.name)
