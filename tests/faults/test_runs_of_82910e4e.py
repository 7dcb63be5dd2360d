"""Runs that an earlier version began, as it left them when it was killed: resumed without a repeated call.

`runs_of_82910e4e` has runs of that commit, of four rows each: what they read, and what was on disk.
Keys of the ledger that change would ask again for what has been paid.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from judgegym.engine.settings import BUNDLED_TOKENIZER
from tests.command import Ended, in_process, serving
from tests.core.datasets.scoring import score
from tests.faults.test_refused_fields import Refusing
from tests.scripted import Json, Reply, completion

RUNS = Path(__file__).parent / "runs_of_82910e4e"
REFUSED = ["temperature", "max_tokens", "system"]
_ARENA = [
    *("--env.train_prompt_dataset=prompts.jsonl", "--env.train_baseline_dataset=baseline.jsonl"),
    *("--env.judge_model_name=the-judge", "--openai.model_name=the-policy"),
]
EVALUATE = ["evaluate", *_ARENA, "--env.data_dir_to_save_evals=evaluate"]
PROCESS = [
    *(
        "process",
        *_ARENA,
        "--env.data_path_to_save_groups=process.jsonl",
        "--env.group_size=2",
        "--env.total_steps=4",
    ),
    *("--env.ensure_scores_are_not_same=False", "--env.tokenizer_name=bytes"),
]
SCORE = ["score", "rows.jsonl", "--out=score.jsonl", "--samples_per_item=2"]
GAME = "So.\n\n[[A>B]]"
OF_THEN = "--judge_model_name=claude-sonnet-4-20250514"
"""The default of then, which the command that began the run did not name."""


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(RUNS, tmp_path, dirs_exist_ok=True)
    shutil.copytree(BUNDLED_TOKENIZER, tmp_path / "bytes")
    monkeypatch.chdir(tmp_path)


def resumed(words: Sequence[str], url: str) -> Ended:
    verb, *flags = words
    if verb == "score":
        return score(*flags, f"--judge_base_url={url}", "--resume")
    urls = f"--env.judge_base_url={url}", f"--openai.base_url={url}"
    return in_process(verb, *flags, *urls, "--resume")


def answers(folder: str) -> int:
    """How many requests the run has an answer to."""
    return sum(
        b'{"call":' in line for line in (RUNS / folder / "calls.jsonl").read_bytes().splitlines()
    )


@pytest.mark.parametrize("names", [(), REFUSED], ids=["taking all", "refusing"])
@pytest.mark.parametrize(
    ("words", "folder", "requests", "verdict"),
    [
        pytest.param(EVALUATE, "evaluate", 4 * (1 + 2), GAME, id="evaluate"),
        pytest.param(
            PROCESS, "process.run", 4 * (1 + 2 * 2), GAME, id="process", marks=pytest.mark.slow
        ),
        pytest.param(
            [*SCORE, OF_THEN], "score.run", 4 * 2, "[FEEDBACK] fine [SCORE] 4", id="score"
        ),
    ],
)
def test_no_call_is_repeated(
    words: Sequence[str], folder: str, requests: int, verdict: str, names: Sequence[str]
) -> None:
    judge = Refusing(names, verdict)

    def script(request: Json, number: int) -> Reply:
        reply = judge(request, number)
        if request["model"] != "the-policy" or reply.status != 200:
            return reply
        return Reply(
            body=completion(
                *(f"An answer that differs, {each}." for each in range(request.get("n", 1)))
            )
        )

    with serving(script) as endpoint:
        ended = resumed(words, endpoint.base_url)
        assert ended.code == 0, ended.said
        assert len(endpoint.requests) - len(judge.refused) == requests - answers(folder)


def test_a_run_with_the_default_judge_of_then_says_which_setting_to_give() -> None:
    with serving("unused") as served:
        ended = resumed(SCORE, served.base_url)
        assert not served.requests
    assert ended.code == 2
    assert f"(give {OF_THEN})" in ended.said
