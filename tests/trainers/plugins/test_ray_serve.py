"""Arguments of the application on Ray Serve that cannot work."""

from __future__ import annotations

from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from judgegym_trainers.ray_serve import app

GROUPS = {"offline": True, "judge": "listwise", "group_size": 4}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {**GROUPS, "max_replicas": 2},
            r"^--group_size: a cohort needs one replica, .* found 2 replicas. Use max_replicas=1",
        ),
        ({**GROUPS, "min_replicas": "2"}, r"^--group_size: a cohort needs one replica"),
        (
            {"offline": True, "min_replicas": 3, "max_replicas": 2},
            r"^min_replicas, max_replicas: 3 to 2 replicas",
        ),
        (
            {"offline": True, "max_replicas": "many"},
            r"^max_replicas: .*whole number, found 'many'$",
        ),
        ({"offline": True, "port": 1}, r"^port: Ray Serve .*expected http_options"),
    ],
)
def test_argument_that_cannot_work_is_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        app(arguments)
