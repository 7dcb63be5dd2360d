"""`--config NAME`: a file, or a preset that the package brings."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym.judges.config.presets import find_config_file, list_presets
from judgegym.llm.errors import SettingsError
from tests.command import ROOT

NAME = "arena_hard_evaluate"


def test_bundled_presets_are_the_files_of_configs() -> None:
    assert set(list_presets()) == {path.stem for path in (ROOT / "configs").iterdir()}
    assert list_presets("arena_hard_") == [NAME, "arena_hard_train"]


def test_name_of_a_preset_is_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config_file(NAME).read_bytes() == (ROOT / "configs" / f"{NAME}.yaml").read_bytes()


def test_file_of_that_name_comes_before_the_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(NAME).touch()
    assert find_config_file(NAME) == Path(NAME)


@pytest.mark.parametrize(
    "given", ["mine.yaml", f"./{NAME}", f"there/{NAME}", f"/{NAME}", "~", "mine.yml"]
)
def test_value_with_a_folder_or_an_ending_is_a_path(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if given == "~":
        Path(given).touch()
    assert find_config_file(given) == Path(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("arena_hrad_train", "did you mean arena_hard_train?"),
        ("zzz", "presets: arena_hard_evaluate, arena_hard_train, "),
        (f"{NAME}.yaml", f"--config {NAME} takes the preset"),
    ],
)
def test_name_of_nothing_says_what_there_is(
    given: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError) as error:
        find_config_file(given)
    assert said in str(error.value)
