import pytest

from judges.llm.urls import check_urls, is_loopback, same_host, split_urls, without_credentials

LOOPBACK = ["http://localhost:8000/v1", "http://127.0.0.1:8000/v1", "http://[::1]:8000/v1", "http://LOCALHOST/v1"]
ELSEWHERE = "https://judge.example/v1"


@pytest.mark.parametrize(
    ("value", "urls"),
    [
        ("http://a/v1", ["http://a/v1"]),
        ("http://a/v1,https://b:8000/v1", ["http://a/v1", "https://b:8000/v1"]),
        (" http://a/v1 , ,http://[::1]/v1,", ["http://a/v1", "http://[::1]/v1"]),
    ],
)
def test_comma_separated_urls_are_split(value: str, urls: list[str]) -> None:
    assert split_urls(value) == urls
    assert check_urls(value) == value


@pytest.mark.parametrize(
    "value",
    ["", " , ", "localhost:8000", "ftp://a/v1", "http://", "http:///v1", "/v1", "http://a/v1,b", "http://[::1/v1"],
)
def test_value_that_is_no_url_is_refused(value: str) -> None:
    with pytest.raises(ValueError):
        check_urls(value)


@pytest.mark.parametrize("port", ["99999", "-1", "abc", "8000x"])
def test_port_out_of_range_is_refused(port: str) -> None:
    with pytest.raises(ValueError):
        check_urls(f"http://localhost:{port}/v1")


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(ValueError) as raised:
        check_urls("ftp://user:password@judge.example/v1")
    assert "judge.example" in str(raised.value) and "password" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "expected"), [*((url, True) for url in LOOPBACK), (ELSEWHERE, False), ("http://localhost.evil/v1", False)]
)
def test_is_loopback_knows_this_machines_names(url: str, expected: bool) -> None:
    assert is_loopback(url) is expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("http://a:1/v1", "https://a:2/v2", True),
        ("http://A/v1,http://a/v2", "http://a", True),
        ("http://a/v1,http://b/v1", "http://a", False),
        ("http://a/v1", "http://a.b/v1", False),
    ],
)
def test_same_host_compares_all_urls(first: str, second: str, expected: bool) -> None:
    assert same_host(first, second) is same_host(second, first) is expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://judge.example/v1", "http://judge.example/v1"),
        ("http://user:password@judge.example/v1", "http://judge.example/v1"),
        ("https://token@judge.example:8000/v1", "https://judge.example:8000/v1"),
        ("http://a:b@one.example/v1,http://c:d@two.example/v1", "http://one.example/v1,http://two.example/v1"),
        ("cannot reach 'http://a:p@ss@one.example' today", "cannot reach 'http://one.example' today"),
        ("http://one.example/path@v1", "http://one.example/path@v1"),
        ("write to user@judge.example", "write to user@judge.example"),
        ("", ""),
    ],
)
def test_without_credentials_removes_user_and_password(text: str, shown: str) -> None:
    assert without_credentials(text) == shown
