import time

import pytest
from pydantic import SecretStr

from judgegym.llm.reachability import Reachability
from judgegym.llm.types import ChatSettings, Endpoint, Replica, environment_proxy

KEY = "sk-this-is-secret"


def endpoint(base_url: str = "http://localhost:8000/v1", key: str | None = None) -> Endpoint:
    return Endpoint(base_url, "some-model", None if key is None else SecretStr(key))


@pytest.mark.parametrize(
    "base_url",
    [
        "http://h:8000/v1",
        "http://h:8000/v1/",
        "http://h:8000/v1/chat/completions",
        "http://h:8000/v1/chat/completions/",
    ],
)
def test_url_of_completions_is_below_the_base_url(base_url: str) -> None:
    assert endpoint(base_url).url == "http://h:8000/v1/chat/completions"


@pytest.mark.parametrize(
    ("base_url", "shown"),
    [
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("https://user:password@api.example.com/v1", "https://api.example.com/v1"),
        ("https://api.example.com:444/v1?token=password#password", "https://api.example.com:444/v1"),
        ("http://user:password@[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_shown_url_has_no_credentials(base_url: str, shown: str) -> None:
    assert endpoint(base_url).shown == shown


def test_a_key_is_taken_out_of_what_an_endpoint_said() -> None:
    assert Replica(endpoint(key=KEY)).redact(f"bad key {KEY}, yes: {KEY}") == "bad key ***, yes: ***"
    assert Replica(endpoint(key="")).redact("text") == "text"
    assert Replica(endpoint()).redact("text") == "text"


@pytest.mark.parametrize("base_url", ["https://user:pa55word@api.example.com/v1", "https://user:pa55word@h:8000"])
def test_a_password_of_the_url_is_taken_out_of_what_an_endpoint_said(base_url: str) -> None:
    assert Replica(endpoint(base_url)).redact("user:pa55word may not do this") == "*** may not do this"


@pytest.mark.parametrize("key", ["", "none", "EMPTY", "dummy", "not-needed", "sk-no-key-required", "ollama"])
def test_a_value_that_is_no_secret_is_left_in_messages(key: str) -> None:
    """Also where it is that of a request's field: an empty one was found between all letters."""
    said = f"none (Cannot connect to the host): {key} is EMPTY, not a dummy"
    replica = Replica(Endpoint("http://h/v1", "m", SecretStr(key), {"X-Key": SecretStr(key)}))
    assert replica.redact(said, {"api_key": key, "extra": {"token": key}}) == said


def test_a_password_of_the_proxy_is_taken_out_of_what_a_library_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "user:pa55word@proxy:3128")
    assert Replica(endpoint("https://api.example.com/v1")).redact("no user:pa55word there") == "no *** there"


def test_key_is_in_the_headers_and_not_in_the_repr() -> None:
    replica = Replica(endpoint(key=KEY))
    assert replica.headers == {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    assert KEY not in repr(replica.endpoint)
    assert KEY not in repr(replica)


def a_set(*in_flight: int) -> Reachability:
    some = [Replica(endpoint(f"http://h{number}/v1")) for number in range(len(in_flight))]
    replicas = Reachability(some, ChatSettings(tuple(each.endpoint for each in some)))
    for replica, calls in zip(replicas.replicas, in_flight, strict=True):
        replica.in_flight = calls
    return replicas


def test_if_all_rest_the_one_that_wakes_first_is_picked() -> None:
    replicas = a_set(0, 5, 1)
    for replica, retry_after in zip(replicas.replicas, (90.0, 30.0, 60.0), strict=True):
        replica.failed(retry_after)
    assert replicas.pick() is replicas.replicas[1]


def test_rests_grow_up_to_half_a_minute_and_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(endpoint())
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)

    def rest(retry_after: float | None = None) -> float:
        replica.failed(retry_after)
        return replica.paused_until - 1000.0

    assert [rest() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert [rest(90.0), rest(0.5)] == [90, 30]
    replica.reached(succeeded=True)
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
    monkeypatch: pytest.MonkeyPatch, failures: list[tuple[float, float | None, float]], in_a_row: int, until: float
) -> None:
    """Each failure has its time, the wait that it asks for, and when its call began."""
    clock, replica = Clock(monkeypatch), Replica(endpoint())
    for clock.now, retry_after, begun in failures:
        replica.failed(retry_after, begun=begun)
    assert (replica.failures_in_a_row, replica.paused_until) == (in_a_row, pytest.approx(until))


@pytest.mark.parametrize(
    ("url", "no_proxy", "proxy"),
    [
        ("http://api.example.com/v1", "", "http://plain:3128"),
        ("https://api.example.com/v1", "", "http://secure:3128"),
        ("https://user:pw@api.example.com:8443/v1", "", "http://secure:3128"),
        ("http://api.example.com/v1", "api.example.com", None),
        ("http://api.example.com:8000/v1", "api.example.com", None),
        ("http://user:pw@api.example.com/v1", "api.example.com", None),
        ("http://api.example.com/v1", ".example.com", None),
        ("https://api.example.com/v1", "localhost,example.com", None),
        ("http://api.example.com/v1", "example.org", "http://plain:3128"),
        ("http://127.0.0.1:8000/v1", "localhost,127.0.0.1", None),
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
