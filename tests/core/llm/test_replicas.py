import time

import pytest
from pydantic import SecretStr

from judgegym.llm.types import Endpoint, Replica, environment_proxy


def endpoint(base_url: str = "http://localhost:8000/v1", key: str | None = None) -> Endpoint:
    return Endpoint(base_url, "some-model", None if key is None else SecretStr(key))


@pytest.mark.parametrize(
    "key", ["", "none", "EMPTY", "dummy", "not-needed", "sk-no-key-required", "ollama"]
)
def test_a_value_that_is_no_secret_is_left_in_messages(key: str) -> None:
    """Also where it is that of a request's field: an empty one was found between all letters."""
    said = f"none (Cannot connect to the host): {key} is EMPTY, not a dummy"
    replica = Replica(Endpoint("http://h/v1", "m", SecretStr(key), {"X-Key": SecretStr(key)}))
    assert replica.redact(said, {"api_key": key, "extra": {"token": key}}) == said


def test_rests_grow_up_to_half_a_minute_and_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(endpoint())
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)

    def rest(retry_after: float | None = None) -> float:
        replica.note_failure(retry_after)
        return replica.paused_until - 1000.0

    assert [rest() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert [rest(90.0), rest(0.5)] == [90, 30]
    replica.note_outcome(succeeded=True)
    assert replica.paused_until < 1000.0
    assert rest() == 1


class Clock:
    """The monotonic clock, set by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.mark.parametrize(
    ("failures", "in_a_row", "until"),
    [
        ([(1000.0, None, 990.0), (1000.2, None, 990.0), (1000.6, None, 1000.0)], 1, 1001.0),
        ([(1000.0, None, 990.0), (1003.0, None, 1001.5), (1004.0, None, 1002.0)], 2, 1005.0),
        ([(1000.0, None, 990.0), (1000.5, 20.0, 990.0)], 1, 1020.5),
        ([(1000.0 + 0.1 * number, 1.0, 990.0) for number in range(8)], 1, 1001.7),
        ([(1000.0, 60.0, 990.0), (1000.5, 2.0, 990.0)], 1, 1060.0),
    ],
    ids=["under way", "begun after", "asks to wait", "many ask to wait", "asks for less"],
)
def test_calls_under_way_at_a_failure_fail_once(
    monkeypatch: pytest.MonkeyPatch,
    failures: list[tuple[float, float | None, float]],
    in_a_row: int,
    until: float,
) -> None:
    """Each failure has its time, the wait that it asks for, and when its call began."""
    clock, replica = Clock(monkeypatch), Replica(endpoint())
    for clock.now, retry_after, begun in failures:
        replica.note_failure(retry_after, begun=begun)
    assert (replica.failures_in_a_row, replica.paused_until) == (in_a_row, pytest.approx(until))


@pytest.mark.parametrize(
    ("url", "no_proxy", "proxy"),
    [
        ("https://api.example.com/v1", "", "http://secure:3128"),
        ("https://user:pw@api.example.com:8443/v1", "", "http://secure:3128"),
        ("http://api.example.com/v1", "api.example.com", None),
        ("http://user:pw@api.example.com/v1", "api.example.com", None),
        ("http://api.example.com/v1", ".example.com", None),
        ("https://api.example.com/v1", "localhost,example.com", None),
        ("https://api.example.com/v1", "*", None),
        ("ftp://api.example.com/v1", "", None),
    ],
)
def test_proxy_is_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, url: str, no_proxy: str, proxy: str | None
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://plain:3128")
    monkeypatch.setenv("HTTPS_PROXY", "http://secure:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert environment_proxy(url) == proxy
