"""The tokenizer follows the policy, and is loaded before anything is paid for; only where text is tokenized here."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER
from tests.arena import Arena
from tests.command import Ended, in_process, serving
from tests.scripted import ScriptedEndpoint
from tests.serving import judging, sampling

UNKNOWN = "no/such folder"


def processed(arena: Arena, *flags: str, path: Path, model: str) -> tuple[Ended, ScriptedEndpoint]:
    with serving(sampling()) as policy, serving(judging()) as judge:
        argv = [
            *arena.flags,
            f"--openai.base_url={policy.base_url}",
            f"--openai.model_name={model}",
            f"--env.judge_base_url={judge.base_url}",
            f"--env.data_path_to_save_groups={path / 'groups.jsonl'}",
            "--env.total_steps=1",
            "--env.ensure_scores_are_not_same=False",
        ]
        return in_process("process", *argv, *flags, env={"HF_HUB_OFFLINE": "1"}), policy


@pytest.mark.slow
@pytest.mark.parametrize("flag", [[], [f"--env.tokenizer_name={BUNDLED_TOKENIZER}"]])
def test_tokenizer_follows_the_name_of_the_policy(
    arena: Arena, tmp_path: Path, flag: list[str]
) -> None:
    model = UNKNOWN if flag else str(BUNDLED_TOKENIZER)
    ended, _ = processed(arena, "--env.token_source=retokenize", *flag, path=tmp_path, model=model)
    assert ended.code == 0, ended.said


def test_tokenizer_is_not_needed_where_the_endpoint_returns_tokens(
    arena: Arena, tmp_path: Path
) -> None:
    ended, _ = processed(arena, path=tmp_path, model=UNKNOWN)
    assert ended.code == 0, ended.said
    assert "the endpoint's own" in ended.err
