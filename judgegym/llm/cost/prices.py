"""List prices (`models.yaml`), for models without prices in the settings.

Guarantees: a price applies to a model's exact name at its provider's own hosts, never to another
server's model of the same name; settings override the table; prices that the table lacks stay
unknown.
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
"""The request field that selects other prices than the list's."""


def find_prices(
    api: ApiName, prices: Prices, urls: Sequence[str], model: str, body: Collection[str] = ()
) -> Prices:
    """Return the prices of a model.

    Args:
        api: the model's API.
        prices: the prices in the settings; if one is set, the table is ignored.
        urls: the base URLs of its replicas.
        model: the model's name.
        body: the names of further request fields.

    Returns:
        The prices of the settings, else those of the table, which are logged once; unknown if
        neither has them. Prices of the prefix cache may be derived from them.
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
        "%s: $%g per million prompt tokens, $%g per million completion tokens, from the built-in "
        "table (%s, %s, %s); settings override it",
        *(model, prices.input, prices.output, entry.provider, entry.as_of, entry.pricing),
    )
