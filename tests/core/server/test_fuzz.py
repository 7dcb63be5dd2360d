"""Whatever is sent: never a 5xx, and nothing but what `/openapi.json` says.

But for a response that is compared with others which have not come: where a protocol has no field
for a failure, that is 503, since the response may be sent again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from tests.core.server.served import as_process

_WITHOUT_A_FIELD = ("/group/get_reward", "/group/slime")
_ALONE = re.compile(r"judge_failed: 1 of 2 members came within [\d.]+ s: .*")


def is_alone(path: str, response: Any) -> bool:
    """Whether a request was answered rightly with 503: the others of its group did not come."""
    if response.status_code != 503 or path not in _WITHOUT_A_FIELD:
        return False
    error = response.json()["error"]
    return error["type"] == "judge_failed" and _ALONE.fullmatch(error["message"]) is not None


def no_failure_of_the_server(ctx: Any, response: Any, case: Any) -> bool | None:
    """Schemathesis' check for errors of the server, but for a response that is alone."""
    if is_alone(case.path, response):
        return None
    result: bool | None = not_a_server_error(ctx, response, case)
    return result


CHECKS = (no_failure_of_the_server, status_code_conformance, response_schema_conformance)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    mounts = (
        '{"safety": {"judge": "aspect"}, "arena": {"judge": "arena_hard"}, "best": {"judge": '
        '"choice"}, '
        '"group": {"judge": "listwise", "group_size": 2, "group_wait": 0.02}}'
    )
    with as_process("--offline", "--judge=rubric", f"--mounts={mounts}") as url:
        yield url


@pytest.mark.slow
def test_the_server_is_as_its_document_says(server: str) -> None:
    """Schemathesis' own requests, valid and not, for each operation of the document."""
    document = schemathesis.openapi.from_url(f"{server}/openapi.json")
    names: list[str] = []
    for found in document.get_all_operations():
        operation = found.ok()
        names.append(f"{operation.method} {operation.path}")

        @given(case=operation.as_strategy())
        @settings(
            max_examples=5,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def conforms(case: Any) -> None:
            case.call_and_validate(checks=CHECKS)

        conforms()
    assert len(names) == 4 + 5 * 9
    assert "post /best/v1/score" in names
