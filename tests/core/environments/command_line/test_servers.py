"""A list of servers under `openai` in a YAML file."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from judgegym.llm.errors import SettingsError
from tests.core.engine.loading import loaded_from

ONE, TWO = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"


def from_file(tmp_path: Path, openai: Any, *flags: str) -> Any:
    path = tmp_path / "my.yaml"
    path.write_text(yaml.safe_dump({"openai": openai}))
    return loaded_from(f"--config={path}", *flags).settings.openai


def servers(openai: Any) -> list[tuple[str, str | None, str | None]]:
    return [
        (
            server.base_url,
            server.model_name,
            server.api_key.get_secret_value() if server.api_key is not None else None,
        )
        for server in openai.replicas
    ]


LIST = [
    {"base_url": ONE, "model_name": "a", "api_key": "k", "timeout": 5.0},
    {"base_url": TWO, "timeout": 5.0},
]


def test_list_of_servers_becomes_replicas(tmp_path: Path) -> None:
    found = from_file(tmp_path, LIST)
    assert servers(found) == [(ONE, "a", "k"), (TWO, None, None)]
    assert (found.timeout, found.base_url) == (5.0, ONE)


def test_setting_of_all_servers_in_a_stronger_source_holds_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGEGYM_OPENAI__TIMEOUT", "7")
    found = from_file(tmp_path, LIST, "--openai.model_name=mine")
    assert (found.model_name, found.timeout) == ("mine", 7.0)
    assert servers(found) == [(ONE, None, "k"), (TWO, None, None)]


def test_url_in_a_stronger_source_replaces_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGEGYM_OPENAI__BASE_URL", "http://127.0.0.1:3/v1")
    found = from_file(tmp_path, LIST)
    assert (found.base_url, servers(found)) == ("http://127.0.0.1:3/v1", [])


@pytest.mark.parametrize(
    ("openai", "words"),
    [
        ([], "list of servers, .*base_url"),
        (["http://x"], "list of servers, .*base_url"),
        ([{"base_url": ONE}, {"model_name": "m"}], "list of servers, .*base_url"),
        (
            [{"base_url": ONE, "timeout": 1}, {"base_url": TWO}],
            r"openai\.timeout .*server 2 differs",
        ),
        (
            [{"base_url": ONE}, {"base_url": TWO}, {"base_url": TWO, "price": {"input": 1}}],
            r"openai\.price .*server 3",
        ),
        ([{"base_url": "nonsense"}], "'nonsense' .*not a URL"),
        ([{"base_url": ONE, "unknown": 1}], r"openai\.unknown"),
    ],
)
def test_list_that_cannot_be_used_is_refused(tmp_path: Path, openai: Any, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        from_file(tmp_path, openai)
