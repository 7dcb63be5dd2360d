"""List prices of common models (`prices.yaml`), for those whose prices no setting gives.

Guarantees: a price is that of a model by its exact name at its provider's own hosts, never that of a server which has
given another model the same name; a setting beats the table; what the table does not know stays unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from judgegym.llm.providers import ApiName, api_of
from judgegym.llm.usage import Prices

logger = logging.getLogger(__name__)

_TABLE = Path(__file__).with_name("prices.yaml")
_NAMES = tuple(field.name for field in fields(Prices))
_OTHER_PRICES = "service_tier"
"""A field of requests with which a provider takes other prices than those of its list."""


@dataclass(frozen=True, slots=True)
class ListPrice:
    """The prices of a model: when they were compared with the provider's list, and where that is."""

    provider: str
    prices: Prices
    at: date
    source: str


@lru_cache(maxsize=1)
def price_table() -> Mapping[tuple[str, str], ListPrice]:
    """The table, by host and by the name that is asked for."""
    import yaml  # late: not every command needs a price

    providers: list[dict[str, Any]] = yaml.safe_load(_TABLE.read_text("utf-8"))
    return {
        (host, known): ListPrice(
            provider["provider"],
            Prices(**{each: entry[each] for each in _NAMES if each in entry}),
            entry["date"],
            provider["source"],
        )
        for provider in providers
        for name, entry in provider["models"].items()
        for known in (name, *entry.get("also", ()))
        for host in provider["hosts"]
    }


def prices_of(api: ApiName, given: Prices, urls: Sequence[str], model: str, body: Collection[str] = ()) -> Prices:
    """The prices of a model.

    Args:
        api: the form in which it is asked.
        given: those of the settings; if one is set, all count as they are.
        urls: the base URLs of its replicas.
        model: the name that is asked for.
        body: the names of further fields of its requests.

    Returns:
        Those given, or else those of the table, which are logged once; unknown where neither has them. Those of the
        prefix cache may follow from them.
    """
    if given != Prices() or _OTHER_PRICES in body:
        return api_of(api).prices(given)
    found = {price_table().get((urlsplit(url).hostname or "", model)) for url in urls}
    listed = found.pop() if len(found) == 1 else None
    if listed is None:
        return given
    _say(model, listed)
    return api_of(api).prices(listed.prices)


@lru_cache(maxsize=256)
def _say(model: str, listed: ListPrice) -> None:
    prices = listed.prices
    logger.info(
        "%s: $%g a million prompt tokens, $%g a million of answers, by our table (%s, %s, %s); settings override it",
        *(model, prices.input, prices.output, listed.provider, listed.at, listed.source),
    )
