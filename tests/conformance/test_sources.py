"""Of two names for one thing the higher source wins, and a result says which data were judged."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import pytest
import yaml

from judgegym.engine.settings.verbs import Verb
from judgegym.environments.command_line.arguments import load_settings, make_settings_type
from judgegym.judges.config.composed import expand_choices
from judgegym.judges.config.fields import declared_settings
from judgegym.llm.errors import SettingsError
from tests.conformance.lab import Lab
from tests.conformance.subjects import SUBJECTS, Subject

VERBS: tuple[Verb, ...] = ("evaluate", "serve", "process")
ENVIRONMENTS = list({subject.env_type: subject for subject in reversed(SUBJECTS)}.values())


def pairs(subject: Subject, verb: Verb) -> Iterator[tuple[str, str]]:
    """Two settings of a verb that mean one thing: the one that is read first, and the other."""
    for setting in declared_settings(
        expand_choices(make_settings_type(subject.env_type)), verb=verb
    ):
        other = setting.fallback(verb)
        if other is not None:
            yield setting.name, other


def test_the_pairs_are_known() -> None:
    found = {pair for subject in ENVIRONMENTS for verb in VERBS for pair in pairs(subject, verb)}
    assert {first for first, _ in found} == {
        "env.eval_prompt_dataset",
        "env.eval_baseline_dataset",
        "env.eval_dataset",
        "env.train_dataset",
        "env.judge_api_key",
        "env.reasoning_effort",
        "env.user_api_key",
        "openai.api_key",
    }


@pytest.mark.slow("prompts", "arena_hard-evaluate")  # they have the most pairs
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("subject", ENVIRONMENTS, ids=lambda subject: subject.title)
def test_the_higher_source_wins_whichever_name_it_uses(
    subject: Subject, verb: Verb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first, other in pairs(subject, verb):
        section, _, field = first.partition(".")
        low, high = ("low", "high") if field != "reasoning_effort" else ("low", 2000)
        path = tmp_path / "preset.yaml"
        path.write_text(yaml.safe_dump({section: {field: low}}), encoding="utf-8")
        users = ["--env.user_max_turns=1"] if field.startswith("user_") else []
        flags = [f"--config={path}", *subject.role, *users]

        loaded = load_settings(subject.env_type, [*flags, f"--{other}={high}"], verb=verb)
        assert attrgetter(first)(loaded.settings) is None, (
            f"--{other} of the command line beats {first} of the file"
        )
        assert attrgetter(other)(loaded.settings) == high
        assert [
            note for note in loaded.notes if other in note and first in note and "replaces" in note
        ]

        variable = f"JUDGEGYM_{other.replace('.', '__').upper()}"
        with monkeypatch.context() as patched:
            patched.setenv(variable, str(high))
            loaded = load_settings(subject.env_type, flags, verb=verb)
            assert (
                attrgetter(first)(loaded.settings) is None
                and attrgetter(other)(loaded.settings) == high
            )
            loaded = load_settings(subject.env_type, [*flags, f"--{first}=low"], verb=verb)
            assert attrgetter(first)(loaded.settings) is not None

        with pytest.raises(SettingsError, match=f"--{other} .* beside --{first}"):
            load_settings(
                subject.env_type, [*flags, f"--{first}=low", f"--{other}={high}"], verb=verb
            )


def test_training_and_evaluation_data_are_two_things_in_serve(tmp_path: Path) -> None:
    arena = next(subject for subject in ENVIRONMENTS if subject.title == "arena_hard")
    path = tmp_path / "preset.yaml"
    path.write_text("env: {eval_prompt_dataset: held_out.jsonl}", encoding="utf-8")
    flags = [f"--config={path}", "--env.train_prompt_dataset=mine.jsonl"]
    settings = load_settings(arena.env_type, flags, verb="serve").settings.env
    assert (settings.train_prompt_dataset, settings.eval_prompt_dataset) == (
        "mine.jsonl",
        "held_out.jsonl",
    )


def test_the_result_says_which_data_were_judged(lab: Lab) -> None:
    ended = lab.evaluate().successful()
    (line,) = [line for line in ended.out.splitlines() if line.startswith("data ")]
    for flag in lab.data("evaluate"):
        assert flag.partition("=")[2] in line
    assert "6 rows" in line
