"""Scripted judges of groups. A response says which cohort it belongs to, and what the judge is to think of it."""

from __future__ import annotations

import asyncio
import re

from tests.core.server.running import asked
from tests.scripted import Json

TEXT = re.compile(r"cohort (\d+-\d+) member (\d+) quality ([\d.]+)")
_LISTED = re.compile(r"\[Start of answer (\w+)[^\]]*\]\n(.*)")
_THINKING_S = 0.6


async def listwise_judge(request: Json, number: int) -> str:
    """Gives each answer the quality in its text; slowly, if one of them says so."""
    shown = await _shown(request)
    scores = [
        f'{{"id": "{name}", "explanation": "It says so.", "score": {TEXT.findall(text)[0][2]}}}'
        for name, text in _LISTED.findall(shown)
    ]
    return f'{{"scores": [{", ".join(scores)}]}}'


async def arena_judge(request: Json, number: int) -> str:
    """The answer of the higher quality wins; slowly, if one of them says so."""
    (_, _, first), (_, _, second) = TEXT.findall(await _shown(request))
    return (
        "[[A=B]]"
        if float(first) == float(second)
        else "[[A>B]]"
        if float(first) > float(second)
        else "[[B>A]]"
    )


async def _shown(request: Json) -> str:
    shown = asked(request)
    if "slow" in shown:
        await asyncio.sleep(_THINKING_S)
    return shown


def metric(metrics: str, name: str) -> float:
    """The sum of a metric over its labels."""
    lines = [line for line in metrics.splitlines() if re.match(rf"{name}[ {{]", line)]
    return sum(float(line.split()[-1]) for line in lines)
