"""Images of conversations, read from the message parts of all formats.

Guarantees: an image is read only where the caller shows it to the judge (`show_images`); elsewhere
it is refused, so that nothing is judged blind. It is an http(s) address, which nobody here fetches,
or a data URL of a PNG, JPEG, GIF or WebP whose header was read. Two parts with the same bytes are
equal. A file is read only if the caller has named a folder for files, and only if it is such an
image: a request to the server can name no file.
"""

from __future__ import annotations

import base64
import io
import struct
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

from judgegym.judges.conversations.turns import (
    UNNUMBERED,
    Turn,
    UnseenPart,
    break_marks,
    list_images,
    number_images,
)
from judgegym.llm import wire
from judgegym.llm.at_once import bind_context
from judgegym.llm.wire import Image

KINDS = frozenset({"image", "image_url", "input_image"})
"""Types of image parts: Anthropic's, TRL's and inspect's; OpenAI's; the Responses API's."""
IMAGES = ("images", "image")
"""The columns of images beside a prompt: TRL's list, and the usual one of a single image."""
_LONGEST = 20 << 20
_LONGEST_URL = 8192
_FIELDS = ("bytes", "data", "base64", "image_url", "image", "url", "path", "source")
_SHOWN: ContextVar[tuple[Path | None, ...]] = ContextVar(
    "where images are shown, and the folder of files", default=()
)


def show_images(
    folder: Path | None = None, *, shown: bool = True
) -> AbstractContextManager[object]:
    """Read the images of conversations within the context, whose caller shows them to the judge.

    Args:
        folder: image files may be named by paths relative to this folder.
        shown: whether images are read inside the context.
    """
    return bind_context(_SHOWN, (folder,) if shown else ())


def read_image(part: Mapping[str, object], at: int = 0) -> Image:
    """Read the image of a part.

    Its address is empty if the part only says that there is an image, as TRL's parts do.

    Args:
        part: a part as OpenAI, the Responses API, Anthropic, TRL or inspect write it; values may be
            of `datasets.Image`.
        at: its position in the text of its message.

    Raises:
        UnseenPart: no judge is shown images here, or the part holds something else, or a file that
            may not be read.
    """
    if not _SHOWN.get():
        raise _unseen_image("images are not shown here, so it would judge blind")
    value = _image_value(part)
    detail = wire.lookup(part, "image_url.detail") or part.get("detail")  # type: ignore[arg-type]
    filled = [name for name, field_value in part.items() if field_value is not None]
    fields = [name for name in filled if name not in ("type", "detail")]
    if value is None and not fields and part.get("type") == "image":
        return Image("", at=at)
    image = _parse_image(value)
    if not isinstance(detail, str):
        detail = ""
    return replace(image, detail=detail, at=at)


def insert_images(columns: Mapping[str, object], turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return the turns with the images of the row's image columns.

    They replace the placeholders in the turns; without placeholders they go before the user's first
    text.

    Raises:
        UnseenPart: the numbers of placeholders and images differ, a column holds no image, or no
            images are shown here.
    """
    column = next((columns[name] for name in IMAGES if columns.get(name)), None)
    if column is None:
        return tuple(turns)
    values: Sequence[object] = [column]
    if isinstance(column, Sequence) and not isinstance(column, str | bytes):
        values = column
    column_images, whole = [read_image({"image": value}) for value in values], list(turns)
    places = sum(not image.url for image in list_images(whole))
    first = next((place for place, turn in enumerate(whole) if turn.role == "user"), None)
    if not places and first is not None:
        turn, places = whole[first], len(column_images)
        shown = UNNUMBERED * places + (turn.shown if turn.images else break_marks(turn.shown))
        whole[first] = replace(
            turn, shown=shown, images=(*(Image("") for _ in column_images), *turn.images)
        )
    if places != len(column_images):
        count = len(column_images)
        raise UnseenPart(
            f"the messages have {places} placeholders for images, but the row has {count} images"
        )
    remaining_images = iter(column_images)
    filled = []
    for turn in whole:
        turn_images = []
        for image in turn.images:
            if not image.url:
                image = replace(next(remaining_images), at=image.at)
            turn_images.append(image)
        filled.append(turn_images)
    return number_images(
        [replace(turn, images=tuple(images)) for turn, images in zip(whole, filled, strict=True)]
    )


def _unseen_image(why: str) -> UnseenPart:
    return UnseenPart(f"a message has a part of type image, which no judge is shown: {why}")


def _image_value(part: Mapping[str, object]) -> object:
    name = next((name for name in _FIELDS if part.get(name) is not None), "")
    value = part.get(name)
    if isinstance(value, Mapping):
        return _image_value(value)
    is_plain = (
        name in ("data", "base64") and isinstance(value, str) and not value.startswith("data:")
    )
    return f"data:;base64,{value}" if is_plain else value


def _parse_image(value: object) -> Image:
    """Parse an image: an address, a data URL, a file's path, bytes or a PIL image."""
    if hasattr(value, "save") and hasattr(value, "mode"):  # a PIL image
        value.save(file := io.BytesIO(), "PNG")
        value = file.getvalue()
    if isinstance(value, bytes | bytearray):
        return decode_image(bytes(value))
    if not isinstance(value, str):
        kind = type(value).__name__
        raise _unseen_image(f"expected an address, a data URL or a file, found {kind}")
    if value[:8].lower().startswith(("http://", "https://")):
        if len(value) > _LONGEST_URL or not value.isprintable() or " " in value:
            raise _unseen_image("its address is no URL")
        return Image(value)
    try:
        if value.startswith("data:"):
            data = base64.b64decode(value.partition(",")[2], validate=True)
        else:
            data = _read_file(value)
    except UnseenPart:
        raise
    except ValueError as error:
        raise _unseen_image(f"its data URL is not in base64: {error}") from None
    return decode_image(data)


def _read_file(name: str) -> bytes:
    folder, shown = _SHOWN.get()[0], name[:100]
    if folder is None or "://" in name.removeprefix("file://"):
        raise _unseen_image(
            f"it names the file {shown!r}, and no file is read here; send a data URL or an http(s) "
            "URL"
        )
    try:
        path = folder / name.removeprefix("file://")
        data = b""
        if path.is_file() and path.stat().st_size <= _LONGEST:
            data = path.read_bytes()
    except (OSError, ValueError):
        data = b""
    if not data:
        raise _unseen_image(
            f"{shown!r} is no file of 1 byte to {_LONGEST >> 20} MiB in the data's folder, {folder}"
        )
    return data


def decode_image(data: bytes) -> Image:
    """Decode a file's bytes as an image.

    Raises:
        UnseenPart: the bytes are no image.
    """
    header = None
    if len(data) <= _LONGEST:
        header = _parse_header(data)
    if header is None:
        raise _unseen_image(
            f"its data is no PNG, JPEG, GIF or WebP of at most {_LONGEST >> 20} MiB"
        )
    kind, width, height = header
    encoded = base64.b64encode(data).decode()
    return Image(f"data:image/{kind};base64,{encoded}", width=width, height=height)


def _parse_header(data: bytes) -> tuple[str, int, int] | None:
    """Return an image's kind, width and height from its header; `None` for other data.

    A WebP has width and height 0.
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR") and len(data) > 24:
        return "png", *struct.unpack(">II", data[16:24])
    if data.startswith((b"GIF87a", b"GIF89a")) and len(data) > 10:
        return "gif", *struct.unpack("<HH", data[6:10])
    if data.startswith(b"RIFF") and data[8:15] == b"WEBPVP8":
        return "webp", 0, 0
    position = len(data)
    if data.startswith(b"\xff\xd8\xff"):
        position = 2
    while position + 9 < len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return "jpeg", *struct.unpack(">HH", data[position + 5 : position + 9])[::-1]
        if marker == 0xFF:
            position += 1
        else:
            position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
    return None
