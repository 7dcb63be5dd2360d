"""Token counts of images, by the providers' published formulas.

Anthropic: a token for each patch of 28 × 28 pixels, 4,784 at most. OpenAI: 1.2 tokens for each
patch of 32 × 32, of 2,500 patches at most with `detail` high (low: 256), otherwise of 10,000.
GPT-4o, GPT-4.1 and GPT-5.1 count tiles of 512 × 512, after scaling down into 2048 × 2048 and to a
shorter side of 768. Other servers are counted like OpenAI's newer models. These are estimates:
earlier models of Anthropic scale down to 1,568 tokens, OpenAI's small models have other factors,
and GPT-5.6 and later have no limit on patches. The usage that an endpoint reports is what is paid.

Guarantee: an image of unknown size gets the formula's highest count.

Sources: Anthropic's guides "Vision" and "Coordinates and bounding boxes", of 2026-07-10; OpenAI's
guide "Images and vision", of 2026-09-29.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from judgegym.llm.providers import ApiName
from judgegym.llm.wire import Image, Message

_TILED = {
    "gpt-4o": (85, 170),
    "gpt-4.1": (85, 170),
    "gpt-5.1": (70, 140),
    "gpt-4o-mini": (2833, 5667),
}
"""For models that count tiles: the tokens of an image, and of each tile."""
_DATE = re.compile(r"-\d{4}-\d\d-\d\d$")
_PATCHES = {"low": 256, "high": 2500}
_MOST_PATCHES, _TOKENS_PER_PATCH, _MOST_TILES, _MOST_ANTHROPIC_TOKENS = 10_000, 1.2, 8, 4784
_SENT_IMAGE = re.compile(rb'"image_url":\{"url":"[^"\\]*"')
"""An image in a request's JSON; in a text field the quotation marks would be escaped."""


def image_tokens(image: Image, api: ApiName, model: str) -> int:
    """Return the tokens of an image for this API and model."""
    sides = sorted((image.width, image.height))
    is_known, most = sides[0] > 0, _PATCHES.get(image.detail, _MOST_PATCHES)
    if api == "anthropic":
        if is_known:
            return min(_MOST_ANTHROPIC_TOKENS, _count_squares(sides, 28))
        return _MOST_ANTHROPIC_TOKENS
    if (tiled := _TILED.get(_DATE.sub("", model))) is None:
        return math.ceil(
            _TOKENS_PER_PATCH * (min(most, _count_squares(sides, 32)) if is_known else most)
        )
    scale = min(1.0, 2048 / max(1, sides[1]))
    scale *= min(1.0, 768 / max(1, sides[0] * scale))
    tiles = _MOST_TILES
    if is_known:
        tiles = _count_squares([round(side * scale, 6) for side in sides], 512)
    return tiled[0] + tiled[1] * (tiles if image.detail != "low" else 0)


def _count_squares(sides: Iterable[float], side: int) -> int:
    return math.prod(math.ceil(length / side) for length in sides)


def count_image_tokens(messages: Iterable[Message], api: ApiName, model: str) -> int:
    """Return the tokens of all images of some messages."""
    tokens = 0
    for message in messages:
        tokens += sum(image_tokens(image, api, model) for image in message.get("images", ()))
    return tokens


def remove_images(body: bytes, api: ApiName, model: str) -> tuple[bytes, int]:
    """Remove the images from a request's JSON; return it with their highest token count."""
    texts, count = _SENT_IMAGE.subn(b"", body)
    return texts, count * image_tokens(Image(""), api, model)
