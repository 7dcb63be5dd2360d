"""How a request is made of OpenEnv's action and observation; the package itself is not needed."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from types import SimpleNamespace as Of
from typing import Any

import pytest

from judgegym.llm.errors import SettingsError
from tests.trainers.plugins.packages import present

OURS = "judgegym_trainers.openenv.rubric"


class Turn:
    """A message as a pydantic model has it."""

    def __init__(self, role: str, content: str) -> None:
        self.role, self.content = role, content

    def model_dump(self) -> dict[str, str]:
        return {"role": self.role, "content": self.content}


@pytest.fixture(autouse=True)
def openenv(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with present(monkeypatch, {"openenv.core.rubrics": {"Rubric": object}}, OURS):
        yield


def row_of(action: Any, observation: Any, **places: Any) -> Any:
    return importlib.import_module(OURS).make_row(action, observation, **places)


def request_of(action: Any, observation: Any, **places: Any) -> Any:
    found = row_of(action, observation, **places)
    return {**found.shared, "response": found.response}


def test_defaults_take_what_is_there() -> None:
    observation = Of(
        messages=[],
        question="Why?",
        reference=4,
        metadata={"rubric": "Is it right?", "prompt": "no"},
    )
    found = request_of(Of(metadata={}, message="Since."), observation)
    assert found == {
        "prompt": "Why?",
        "response": "Since.",
        "reference": "4",
        "rubric": "Is it right?",
    }


def test_messages_of_any_kind() -> None:
    observation = Of(messages=[Turn("system", "Be brief."), {"role": "user", "content": "Why?"}])
    found = request_of(Of(completion=[Turn("assistant", "Since.")]), observation)
    assert found["prompt"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why?"},
    ]
    assert found["response"] == [{"role": "assistant", "content": "Since."}]


def test_paths_and_functions() -> None:
    observation = Of(metadata={"task": {"text": "Why?"}}, golden="So.")
    found = request_of(
        Of(says={"final": "Since."}),
        observation,
        prompt="observation.metadata.task.text",
        response=lambda action, _: action.says["final"],
        fields={"reference": ("observation.none", "observation.golden")},
    )
    assert found == {"prompt": "Why?", "response": "Since.", "reference": "So."}


@pytest.mark.parametrize(
    ("action", "observation", "message"),
    [
        (Of(text="Since."), Of(), "no prompt in observation.messages, observation.prompt"),
        (Of(), Of(prompt="Why?"), "no response in action.completion"),
        (Of(text="Since."), Of(prompt=7), "expected text .*found int"),
        (
            Of(text="Since."),
            Of(prompt="Why?", reference=object()),
            "reference: expected text, found object",
        ),
    ],
)
def test_a_step_of_which_no_request_can_be_made(
    action: Any, observation: Any, message: str
) -> None:
    assert re.match(message, row_of(action, observation).error)


def test_an_empty_response_is_sent() -> None:
    assert request_of(Of(text=""), Of(prompt="Why?"))["response"] == ""


@pytest.mark.parametrize(
    "places", [{"prompt": "question"}, {"fields": {"label": "observation.label"}}]
)
def test_wrong_places_are_settings_errors(places: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="expected"):
        importlib.import_module(OURS).check_locations(
            **{"prompt": (), "response": (), "fields": {}, **places}
        )
