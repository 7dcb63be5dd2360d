"""How many tokens an image counts for, by the providers' published formulas.

OpenAI (detail `high` or `auto`): scaled down into 2048 × 2048, then to a shorter side of 768, and 170 tokens for each
tile of 512 × 512 beside 85; with detail `low` 85 in all. Anthropic: width × height / 750, after scaling down to a
longer side of 1568, and about 1,600 at most. These are estimates: some models count otherwise, and the usage that an
endpoint reports is what is paid.

Guarantee: an image of unknown size counts with the most that the formula gives.

Sources: OpenAI's guide "Images and vision" (GPT-4o) and Anthropic's guide "Vision", as published in 2025.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from judgegym.llm.providers import ApiName
from judgegym.llm.wire import Image, Message

_BASE, _TILE, _TILE_SIDE, _LONGER, _SHORTER = 85, 170, 512, 2048, 768
_PIXELS_OF_TOKEN, _MOST_SIDE = 750, 1568
_SENT = re.compile(rb'"image_url":\{"url":"[^"\\]*"')
"""An image in a request; within a text of it the quotation marks are escaped."""
_MOST: Mapping[bool, int] = {True: 1600, False: _BASE + _TILE * 8}


def image_tokens(image: Image, api: ApiName) -> int:
    """The tokens of an image at an endpoint that is asked in this form."""
    is_anthropic = api == "anthropic"
    if image.detail == "low" and not is_anthropic:
        return _BASE
    if not image.width or not image.height:
        return _MOST[is_anthropic]
    sides = sorted((image.width, image.height))
    if is_anthropic:
        scale = min(1.0, _MOST_SIDE / sides[1])
        return min(_MOST[True], math.ceil(sides[0] * sides[1] * scale * scale / _PIXELS_OF_TOKEN))
    scale = min(1.0, _LONGER / sides[1])
    scale *= min(1.0, _SHORTER / (sides[0] * scale))
    return _BASE + _TILE * math.prod(math.ceil(round(side * scale, 6) / _TILE_SIDE) for side in sides)


def tokens_of_images(messages: Iterable[Message], api: ApiName) -> int:
    """The tokens of all images of messages."""
    return sum(image_tokens(image, api) for message in messages for image in message.get("images", ()))


def without_images(body: bytes, api: ApiName) -> tuple[bytes, int]:
    """The JSON of a request without its images, and the most tokens that they count for."""
    texts, count = _SENT.subn(b"", body)
    return texts, count * _MOST[api == "anthropic"]
