"""The images of a task in its judge's requests.

Guarantees: a task with images is never judged without them. Images follow the text of the judge's
    first user message, each after its mark. A judge that may not see images refuses the task before
    the first call. If the endpoint refuses images (HTTP 4xx), the task fails with the endpoint's
    words, and no further images are sent to it (`judge_images=auto`). Images are scaled down one at
    a time; an image of more than `MOST_PIXELS` is never decoded, whatever the size of its file.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec

from judgegym.judges.conversations.images import decode_image
from judgegym.judges.core.tasks import JudgeTask, TaskError
from judgegym.llm.at_once import bind_context
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError
from judgegym.llm.wire import Image, Message

MOST_PIXELS = 64_000_000
"""Maximum size of an image that is scaled down: a decoded pixel takes four bytes."""

_TASK_IMAGES: ContextVar[tuple[Image, ...]] = ContextVar("images of the task", default=())
_REFUSALS = frozenset({400, 404, 415, 422, 501})
_IMAGE_PATTERN = re.compile(r"image|multi-?modal|vision", re.IGNORECASE)
_SINGLE_IMAGE_PATTERN = re.compile(
    r"(?i)format|download|fetch|decod|process|corrupt|too "
    r"(?:large|many|big)|exceed|dimension|size|base64|timed? ?out"
    r"|at most [1-9]"
)
"""Words of an endpoint that refuses this one image, not all images."""


def show_images(task: JudgeTask) -> AbstractContextManager[object]:
    """Attach the task's images to the calls made inside this context."""
    return bind_context(_TASK_IMAGES, task.all_images)


def check_images(task: JudgeTask, client: ChatClient) -> None:
    """Check that a judge can be shown the images of a task.

    Raises:
        TaskError: it cannot be shown them.
    """
    images, settings = task.all_images, client.settings
    if not all(image.url for image in images):
        raise TaskError("images: a message says that there is one, and the image is not there")
    if images and settings.images == "no":
        raise TaskError("images: judge_images=no, and without them the judge would judge blind")
    large = [image for image in images if _exceeds_side(image, settings.image_max_side)]
    for image in large:
        if image.width * image.height > MOST_PIXELS:
            problem = _describe_pixel_limit(image.width, image.height, settings.image_max_side)
            raise TaskError(f"images: {problem}")
    if large and find_spec("PIL") is None:
        raise TaskError(
            f"images: one is larger than judge_image_max_side={settings.image_max_side} pixels, "
            "and scaling it down "
            "takes Pillow: pip install pillow (the extra images); 0 sends images as they are"
        )


async def attach_images(messages: Sequence[Message], client: ChatClient) -> Sequence[Message]:
    """Return the messages with the current task's images in the first user message.

    Raises:
        TaskError: the endpoint has refused images, or an image cannot be scaled down; no call may
            be made.
    """
    images = _TASK_IMAGES.get()
    side = client.settings.image_max_side
    if not images:
        return messages
    if client.image_refusal is not None:
        raise TaskError(client.image_refusal)
    try:
        if any(_exceeds_side(image, side) for image in images):
            loop = asyncio.get_running_loop()
            images = tuple(
                [
                    await loop.run_in_executor(_decoder_pool(), _scale_image, image, side)
                    for image in images
                ]
            )
    except (OSError, ValueError) as error:
        raise TaskError(
            f"an image cannot be scaled down to judge_image_max_side={side}: {error}"
        ) from None
    question_index = next(
        (index for index, message in enumerate(messages) if message["role"] == "user"), None
    )
    if question_index is None:
        raise TaskError("images: this judge is asked without a question that could hold them")
    return [
        *messages[:question_index],
        {**messages[question_index], "images": images},
        *messages[question_index + 1 :],
    ]


def note_refusal(error: EndpointError, messages: Sequence[Message], client: ChatClient) -> None:
    """Remember that an endpoint takes no images, if it refused messages for their images."""
    is_refusal = (
        error.status in _REFUSALS
        and _IMAGE_PATTERN.search(error.answer)
        and not _SINGLE_IMAGE_PATTERN.search(error.answer)
    )
    if (
        is_refusal
        and client.settings.images == "auto"
        and any(message.get("images") for message in messages)
    ):
        client.image_refusal = (
            f"images: the judge at {error}; it is not asked about images again (judge_images=auto)"
        )


def _exceeds_side(image: Image, side: int) -> bool:
    return 0 < side < max(image.width, image.height)


def _describe_pixel_limit(width: int, height: int, side: int) -> str:
    return (
        f"one has {width} × {height} pixels, and at most {MOST_PIXELS // 10**6} million are scaled "
        "down to "
        f"judge_image_max_side={side}; make it smaller, or send images as they are with 0"
    )


@lru_cache
def _decoder_pool() -> ThreadPoolExecutor:
    """Return the pool of one thread that decodes images."""
    return ThreadPoolExecutor(1, thread_name_prefix="image")


os.register_at_fork(after_in_child=_decoder_pool.cache_clear)  # a fork has no such thread


@lru_cache(maxsize=32)
def _scale_image(image: Image, side: int) -> Image:
    """Return the image scaled down to at most `side` pixels of its longer side."""
    if not _exceeds_side(image, side):
        return image
    from PIL import Image as Pillow  # late: an extra

    try:
        with Pillow.open(io.BytesIO(image.data)) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                raise ValueError(_describe_pixel_limit(picture.width, picture.height, side))
            picture.thumbnail((side, side))
            picture.save(
                file := io.BytesIO(), "JPEG" if image.name.endswith("jpeg") else "PNG", quality=90
            )
    except Pillow.DecompressionBombError as error:
        raise ValueError(str(error)) from None
    return replace(decode_image(file.getvalue()), detail=image.detail, mark=image.mark)
