"""Images of conversations: read from the parts of all formats, marked in texts, numbered as a judge sees them.

Guarantees: an image is an http(s) address, which nobody here fetches, or a data URL of a PNG, JPEG, GIF or WebP whose
header was read; two parts with the same bytes are equal. A file is read only where the caller has said beside which
folder (`files_beside`), and only if it is such an image: a request to the server can name no file. In a text with
images `[image 1]` stands for an image and for nothing else: what looks like a mark is broken up (`[¦image 1]`).
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Literal

from judgegym.llm.template_tokens import BREAK
from judgegym.llm.wire import Image

KINDS = frozenset({"image", "image_url", "input_image"})
"""The types of parts that are images: Anthropic's, TRL's and inspect's; OpenAI's; that of the Responses API."""
LIKE_MARK = r"[ \t*_`~]*images?[ \t#*_`~]*\d"
"""What follows the first sign of what looks like a mark."""
_LONGEST = 20 << 20
_LONGEST_URL = 8192
_FIELDS = ("bytes", "data", "base64", "image_url", "image", "url", "path", "source")
_MARK = re.compile(r"\[image \d+\]")
_LOOKALIKE = re.compile(rf"([\[［【〔])(?={LIKE_MARK})", re.IGNORECASE)
_SECRET = secrets.token_hex(8)
_PLACEHOLDER = re.compile(rf"<{_SECRET} (\d+)>")
_FOLDER: ContextVar[Path | None] = ContextVar("folder of images", default=None)


class ImageError(ValueError):
    """A part of type image holds none that can be shown."""


@contextmanager
def files_beside(folder: Path) -> Iterator[None]:
    """Let parts of the conversations that are read inside name files, by paths relative to `folder`."""
    token = _FOLDER.set(folder)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def read_image(part: Mapping[str, object], at: int = 0) -> Image:
    """The image of a part; one without an address if the part only says that there is one, as TRL's do.

    Args:
        part: as OpenAI, the Responses API, Anthropic, TRL or inspect write it, or a value of `datasets.Image`.
        at: where in its message's text it stands.

    Raises:
        ImageError: it holds something else, or a file that may not be read.
    """
    value, detail = _value(part), part.get("detail")
    inner = part.get("image_url")
    detail = inner.get("detail", detail) if isinstance(inner, Mapping) else detail
    if value is None:
        held = [name for name, each in part.items() if each is not None and name not in ("type", "detail")]
        if held or part.get("type") not in (None, "image"):
            raise ImageError(f"it has no address and no data (fields: {', '.join(held) or 'none'})")
        return Image("", at=at)
    return replace(image_of(value), detail=detail if isinstance(detail, str) else "", at=at)


def _value(part: Mapping[str, object]) -> object:
    name = next((name for name in _FIELDS if part.get(name) is not None), "")
    value = part.get(name)
    if isinstance(value, Mapping):
        return _value(value)
    is_plain = name in ("data", "base64") and isinstance(value, str) and not value.startswith("data:")
    return f"data:;base64,{value}" if is_plain else value


def image_of(value: object) -> Image:
    """An image given as an address, a data URL, the path of a file, bytes, a PIL image or a `datasets.Image`.

    Raises:
        ImageError: it is none of these, or may not be read.
    """
    if isinstance(value, Mapping):
        return read_image(value)
    if isinstance(value, bytes | bytearray):
        return _of_bytes(bytes(value))
    if hasattr(value, "save") and hasattr(value, "mode"):  # a PIL image
        value.save(file := io.BytesIO(), "PNG")
        return _of_bytes(file.getvalue())
    if not isinstance(value, str):
        raise ImageError(f"expected an address, a data URL or a file, found {type(value).__name__}")
    if value[:8].lower().startswith(("http://", "https://")):
        if len(value) > _LONGEST_URL or not value.isprintable() or " " in value:
            raise ImageError("its address is no URL")
        return Image(value)
    if not value.startswith("data:"):
        return _of_bytes(_file(value))
    header, _, data = value.partition(",")
    try:
        if not header.endswith(";base64"):
            raise ImageError("its data URL is not in base64")
        return _of_bytes(base64.b64decode(data, validate=True))
    except binascii.Error as error:
        raise ImageError(f"its data is no base64: {error}") from None


def _file(name: str) -> bytes:
    folder, shown = _FOLDER.get(), name[:100]
    if folder is None or "://" in name.removeprefix("file://"):
        raise ImageError(f"it names the file {shown!r}, and no file is read here; send a data URL or an http(s) URL")
    try:
        path = folder / name.removeprefix("file://")
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= _LONGEST else b""
    except (OSError, ValueError):
        data = b""
    if not data:
        raise ImageError(f"{shown!r} is no file of 1 byte to {_LONGEST >> 20} MiB beside the data, in {folder}")
    return data


def _of_bytes(data: bytes) -> Image:
    header = _header(data) if len(data) <= _LONGEST else None
    if header is None:
        raise ImageError(f"its data is no PNG, JPEG, GIF or WebP of at most {_LONGEST >> 20} MiB")
    kind, width, height = header
    return Image(f"data:image/{kind};base64,{base64.b64encode(data).decode()}", width=width, height=height)


def _header(data: bytes) -> tuple[str, int, int] | None:
    """The kind of an image with its width and height (0 of a WebP), by its header; `None` for other data."""
    if data.startswith(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR") and len(data) > 24:
        return "png", *_sides(data[16:24], 4, "big")
    if data.startswith((b"GIF87a", b"GIF89a")) and len(data) > 10:
        return "gif", *_sides(data[6:10], 2, "little")
    if data.startswith(b"RIFF") and data[8:15] == b"WEBPVP8":
        return "webp", 0, 0
    place = 2 if data.startswith(b"\xff\xd8\xff") else len(data)
    while place + 9 < len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = _sides(data[place + 5 : place + 9], 2, "big")
            return "jpeg", width, height
        place += 1 if marker == 0xFF else 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    return None


def _sides(data: bytes, size: int, order: Literal["big", "little"]) -> tuple[int, int]:
    return int.from_bytes(data[:size], order), int.from_bytes(data[size:], order)


def mark(number: int) -> str:
    """What stands for an image in a text."""
    return f"[image {number}]"


def broken_up(text: str) -> str:
    """A text of which nothing looks like the mark of an image."""
    return _LOOKALIKE.sub(rf"\1{BREAK}", text)


def without_marks(text: str) -> str:
    """A marked text without the marks."""
    return _MARK.sub("", text)


def placeholder(number: int) -> str:
    """What stands for an image in a text until that is marked; no text from outside can have it."""
    return f"<{_SECRET} {number}>"


def marked(text: str, images: Sequence[Image]) -> tuple[str, tuple[Image, ...]]:
    """A text with placeholders from 1 as a text with marks, and its images; without images the text as it is."""
    if not images:
        return text, ()
    found = _PLACEHOLDER.sub(r"[image \1]", text)
    return found, tuple(replace(each, mark=mark(number)) for number, each in enumerate(images, start=1))


def renumbered(text: str, images: Sequence[Image], first: int) -> tuple[str, tuple[Image, ...]]:
    """A marked text and its images, numbered from `first`; without images, lookalikes are broken up."""
    if not images:
        return broken_up(text), ()
    new = {each.mark: mark(number) for number, each in enumerate(images, start=first)}
    found = _MARK.sub(lambda old: new.get(old[0]) or broken_up(old[0]), text)
    return found, tuple(replace(each, mark=new[each.mark]) for each in images)
