"""List prices (`models.yaml`), for models whose prices no setting gives.

Guarantees: a price is that of a model by its exact name at its provider's own hosts, never that of
a server which has given another model the same name; a setting beats the table; what the table does
not know stays unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from functools import lru_cache

from judgegym.llm.cost.models import KnownModel, find_model, today
from judgegym.llm.providers import ApiName, load_api
from judgegym.llm.usage import Prices

logger = logging.getLogger(__name__)

_OTHER_PRICES = "service_tier"
"""A field of requests with which a provider takes other prices than those of its list."""


def find_prices(
    api: ApiName, prices: Prices, urls: Sequence[str], model: str, body: Collection[str] = ()
) -> Prices:
    """Return the prices of a model.

    Args:
        api: the form in which it is asked.
        prices: those of the settings; if one is set, all count as they are.
        urls: the base URLs of its replicas.
        model: the name that is asked for.
        body: the names of further fields of its requests.

    Returns:
        Those given, or else those of the table, which are logged once; unknown where neither has
        them. Those of the prefix cache may follow from them.
    """
    if prices != Prices() or _OTHER_PRICES in body:
        return load_api(api).prices(prices)
    entry = find_model(urls, model)
    if (
        entry is None
        or entry.prices.input is None
        or (entry.until is not None and entry.until < today())
    ):
        return prices
    _log_prices(model, entry)
    return load_api(api).prices(entry.prices)


@lru_cache(maxsize=256)
def _log_prices(model: str, entry: KnownModel) -> None:
    prices = entry.prices
    logger.info(
        "%s: $%g a million prompt tokens, $%g a million of answers, by our table (%s, %s, %s); "
        "settings override it",
        *(model, prices.input, prices.output, entry.provider, entry.as_of, entry.pricing),
    )
