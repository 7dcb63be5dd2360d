"""Juries and cascades whose judges are models of one scripted endpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.registry import JUDGES
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.client import ChatClient
from tests.scripted import Json, Reply, ScriptedEndpoint

Connect = Callable[..., ChatClient]
Ratings = Mapping[str, "int | Reply | Callable[[str], int]"]
NO_VERDICT, REFUSED = Reply("I cannot say."), Reply(status=400)


def by_model(ratings: Ratings) -> Callable[[Json, int], Reply | str]:
    """Each model's rating from 0 to 10, of any text or by the prompt."""

    def answer(request: Json, number: int) -> Reply | str:
        rating = ratings[request["model"]]
        if callable(rating):
            rating = rating(request["messages"][-1]["content"])
        return rating if isinstance(rating, Reply) else f"[FEEDBACK] So. [SCORE] {rating}"

    return answer


def settings_of(
    endpoint: ScriptedEndpoint, kind: str, judges: object, **given: Any
) -> AnyJudgeSettings:
    parts = JUDGES[kind].parts
    assert parts is not None
    made = {"judge": kind, parts.setting: judges, "judge_base_url": endpoint.base_url}
    scale = {"scale_min": 0, "scale_max": 10}  # of members that are judges by a rubric
    chosen = AnyJudgeSettings.select_class(made).model_fields
    return AnyJudgeSettings.model_validate(
        {**made, **{name: scale[name] for name in scale if name in chosen}, **given}
    )


def opened(
    connect: Connect, endpoint: ScriptedEndpoint, kind: str, judges: object, **given: Any
) -> Any:
    return open_judge(
        settings_of(endpoint, kind, judges, **given), connect(endpoint, max_retries=0)
    )
