import logging
from collections.abc import Iterator

import pytest
import tiktoken

from judgegym.llm import usage


@pytest.fixture(autouse=True)
def _nothing_loaded() -> Iterator[None]:
    usage._encoding.cache_clear()
    yield
    usage._encoding.cache_clear()


def refuse(name: str) -> tiktoken.Encoding:
    raise ConnectionError("no network")


def one_token_for_each_byte(name: str) -> tiktoken.Encoding:
    special = {"<|endoftext|>": 256}
    ranks = {bytes([byte]): byte for byte in range(256)}
    return tiktoken.Encoding(
        "bytes", pat_str=r"[\s\S]", mergeable_ranks=ranks, special_tokens=special
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("é" * 4, 2), ("x" * 4000, 1000), ("\ud800", 1)],
)
def test_without_a_table_a_quarter_of_the_bytes(
    monkeypatch: pytest.MonkeyPatch, text: str, count: int
) -> None:
    monkeypatch.setattr(tiktoken, "get_encoding", refuse)
    assert usage.count_tokens(text) == count


def test_the_log_says_once_that_the_table_is_missing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tiktoken, "get_encoding", refuse)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            usage.count_tokens("text")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "ConnectionError" in caplog.text


@pytest.mark.parametrize(("text", "count"), [("", 0), ("abc", 3), ("é", 2), ("<|endoftext|>", 13)])
def test_with_a_table_its_tokens_and_special_ones_are_text(
    monkeypatch: pytest.MonkeyPatch, text: str, count: int
) -> None:
    monkeypatch.setattr(tiktoken, "get_encoding", one_token_for_each_byte)
    assert usage.count_tokens(text) == count
