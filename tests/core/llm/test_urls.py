import pytest

from judgegym.llm.types import Endpoint
from judgegym.llm.urls import (
    add_version,
    check_urls,
    have_same_host,
    is_public,
    redact_credentials,
    redact_secret_fields,
    secrets_in_fields,
    split_urls,
)

LOOPBACK = [
    "http://localhost:8000/v1",
    "http://127.0.0.1:8000/v1",
    "http://[::1]:8000/v1",
    "http://LOCALHOST/v1",
]
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
    [
        "",
        " , ",
        "localhost:8000",
        "ftp://a/v1",
        "http://",
        "http:///v1",
        "/v1",
        "http://a/v1,b",
        "http://[::1/v1",
    ],
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


PRIVATE = [
    *LOOPBACK,
    "http://127.0.0.53:8000/v1",
    "http://10.1.2.3:8000/v1",
    "http://172.16.0.1/v1",
    "http://192.168.0.7/v1",
    "http://100.64.1.2/v1",
    "http://169.254.1.1/v1",
    "http://[fe80::1%eth0]:8000/v1",
    "http://[fd00::1]:8000/v1",
    "http://gpu-node-7:8000/v1",
    "http://GPU.LOCAL:8000/v1",
    "http://vllm.llm.svc:8000/v1",
    "http://vllm.llm.svc.cluster.local./v1",
    "http://ip-10-0-0-7.ec2.internal:8000/v1",
    "http://user:password@vllm.internal/v1",
]
PUBLIC = [
    ELSEWHERE,
    "https://api.openai.com/v1",
    "http://8.8.8.8:8000/v1",
    "http://[2606:4700::1]/v1",
    "http://localhost.evil/v1",
    "http://internal.example/v1",
]


@pytest.mark.parametrize(
    ("url", "expected"), [*((url, False) for url in PRIVATE), *((url, True) for url in PUBLIC)]
)
def test_host_is_public_unless_its_address_or_name_is_private(url: str, expected: bool) -> None:
    assert is_public(url) is expected


@pytest.mark.parametrize(
    ("base_url", "meant"),
    [
        ("http://h:8000", "http://h:8000/v1"),
        ("http://h:8000/", "http://h:8000/v1"),
        ("http://user:password@h:8000/api?key=x", "http://h:8000/api/v1?key=***"),
        ("http://h:8000/v1", None),
        ("https://h/v1beta/openai", None),
        ("https://h/api/paas/v4/", None),
    ],
)
def test_url_without_a_version_has_one_that_may_be_meant(base_url: str, meant: str | None) -> None:
    assert add_version(base_url) == meant


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
    assert have_same_host(first, second) is have_same_host(second, first) is expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:password@judge.example/v1", "http://judge.example/v1"),
        ("https://token@judge.example:8000/v1", "https://judge.example:8000/v1"),
        (
            "http://a:b@one.example/v1,http://c:d@two.example/v1",
            "http://one.example/v1,http://two.example/v1",
        ),
        (
            "cannot reach 'http://a:p@ss@one.example' today",
            "cannot reach 'http://one.example' today",
        ),
        ("http://one.example/path@v1", "http://one.example/path@v1"),
        ("", ""),
    ],
)
def test_without_credentials_removes_user_and_password(text: str, shown: str) -> None:
    assert redact_credentials(text) == shown


@pytest.mark.parametrize(
    ("base_url", "url", "beside"),
    [
        ("http://h/v1", "http://h/v1/chat/completions", "http://h/tokenize"),
        (
            "http://h/v1/?api-version=1",
            "http://h/v1/chat/completions?api-version=1",
            "http://h/tokenize?api-version=1",
        ),
        (
            "http://h/v1/chat/completions?a=b",
            "http://h/v1/chat/completions?a=b",
            "http://h/tokenize?a=b",
        ),
        (
            "http://h/openai/deployments/m?a=b",
            "http://h/openai/deployments/m/chat/completions?a=b",
            None,
        ),
    ],
)
def test_query_of_a_base_url_stays_behind_the_path(
    base_url: str, url: str, beside: str | None
) -> None:
    endpoint = Endpoint(base_url, "m")
    assert endpoint.url == url
    assert endpoint.redacted_url == redact_credentials(base_url).partition("?")[0]
    if beside is not None:
        assert endpoint.server_url("/tokenize") == beside


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://h/v1?api-version=1&sig=abc", "http://h/v1?api-version=1&sig=***"),
        ("http://h/v1?code=abc,http://g/v1?k=d", "http://h/v1?code=***,http://g/v1?k=***"),
        (
            "see 'http://u:p@h?token=abc' and https://a/b#c=d",
            "see 'http://h?token=***' and https://a/b#c=d",
        ),
        ("a=b&c=d", "a=b&c=d"),
    ],
)
def test_values_of_a_query_are_blank_but_for_harmless_ones(text: str, shown: str) -> None:
    assert redact_credentials(text) == shown


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        *(
            (name, True)
            for name in (
                "api_key",
                "apiKey",
                "X-API-Key",
                "access_token",
                "token",
                "client_secret",
                "key",
            )
        ),
        *(
            (name, True)
            for name in (
                "password",
                "passwd",
                "Authorization",
                "signature",
                "sig",
                "hf_token",
                "auth_key",
            )
        ),
        *(
            (name, False)
            for name in ("max_tokens", "stop_token", "top_p", "reasoning_effort", "stop", "keyword")
        ),
    ],
)
def test_fields_whose_names_look_like_secrets_are_blank(name: str, is_secret: bool) -> None:
    fields = {"a": [{name: "value"}]}
    assert redact_secret_fields(fields) == {"a": [{name: "***" if is_secret else "value"}]}
    assert list(secrets_in_fields(fields)) == (["value"] if is_secret else [])
