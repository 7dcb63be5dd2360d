"""Without the Hugging Face hub there is one message at once, not minutes of retries."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from judgegym.data import hub
from judgegym.data.rows import load_rows
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.llm.errors import DataError, SettingsError
from tests.command import serving
from tests.scripted import Reply

NOWHERE = "http://127.0.0.1:9"
_PLACES = ("huggingface_hub.constants", "datasets.config")


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    for name in _PLACES:
        __import__(name)
        monkeypatch.setattr(sys.modules[name], "HF_HUB_OFFLINE", False)
    hub._find_connection_error.cache_clear()
    yield
    hub._find_connection_error.cache_clear()


def test_hub_that_does_not_answer_is_out_of_reach_and_its_libraries_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", NOWHERE)
    reason = hub.find_unreachable_reason()
    assert reason is not None and NOWHERE in reason
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert all(sys.modules[name].HF_HUB_OFFLINE for name in _PLACES)


def test_hub_that_answers_anything_is_in_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Reply(status=404, body={})) as endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint.base_url)
        assert hub.find_unreachable_reason() is None
    assert os.environ["HF_HUB_OFFLINE"] == ""


def test_offline_switch_of_the_user_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert hub.find_unreachable_reason() == "HF_HUB_OFFLINE is set"


def test_tokenizer_and_dataset_without_the_hub_are_one_line_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", NOWHERE)
    with pytest.raises(SettingsError, match=r"cannot be reached.*tokenizer.* cache") as tokenizer:
        _ = Retokenizer("some-lab/some-model").tokenizer
    with pytest.raises(DataError, match=r"cannot be reached: .*only cached") as dataset:
        load_rows("some-lab/some-rows", split="train")
    assert "--env.tokenizer_name" in str(tokenizer.value) and "'some-lab/some-model'" in str(
        tokenizer.value
    )
    assert all(len(str(error.value).splitlines()) == 1 for error in (tokenizer, dataset))
    assert "Retrying" not in capsys.readouterr().err
