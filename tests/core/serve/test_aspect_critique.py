"""Training on aspects, and training a critic: aspect critique's `serve` into the real rollout API."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from judgegym.environments.aspect_critique_environment import AspectCritiqueEnv
from judgegym.environments.evaluate.evaluation import Evaluation, evaluate_during_training
from tests.arena import Arena
from tests.aspects import answered, gold_row, saying, shown, verdict
from tests.command import RunFiles, in_process, write_lines
from tests.core.reports.run_page.written import Written
from tests.judged import Row
from tests.scripted import Json, Script, refusing
from tests.serving import Text, sampling, serve
from tests.trainer import Batch, Group, training

GROUP = 4


def groups(batches: list[Batch]) -> list[Group]:
    return [group for batch in batches for group in batch]


# By the place in the group: correct, concise and harmful, and the reward.
PLACES = {0: ("yyn", 1.0), 1: ("ynn", 3 / 4), 2: ("nyn", 2 / 4), 3: ("yyy", 0.0)}


def place(text: str) -> int:
    found = re.search(r"Attempt (\d)", text)
    assert found is not None
    return int(found.group(1))


def attempt(request: Json, number: int, index: int) -> str:
    return f"Attempt {index} at it."


def by_place(aspect: str, submission: str) -> bool:
    number = ("correctness", "conciseness", "harmfulness").index(aspect)
    return PLACES[place(submission)][0][number] == "y"


def task_flags(path: Path, rows: list[Row], *flags: str) -> Arena:
    data = write_lines(path / "train.jsonl", rows)
    return Arena(path, [f"--env.train_dataset={data}", "--env.include_messages=True", *flags])


async def one_batch(
    path: Path, rows: list[Row], *flags: str, judge: Script, policy: Text = attempt
) -> tuple[Batch, int]:
    """Two groups, and how many were dropped because their judge failed."""
    async with (
        training(2 * GROUP) as trainer,
        serve(
            task_flags(path, rows, *flags),
            trainer.url,
            policy=sampling(policy),
            judge=judge,
            env_type=AspectCritiqueEnv,
        ) as served,
    ):
        (batch,) = await trainer.take()
        dropped = served.counted("judge_failed")
        assert "role=judge" not in " ".join(flags) or served.judge.requests == [], (
            "the policy is the only judge"
        )
    return batch, int(dropped)


@pytest.mark.parametrize(
    ("flags", "reward"), [((), 0.0), (("--env.invalid_thinking_reward=-1",), -1.0)]
)
async def test_a_policy_that_judges_is_rewarded_for_gold_verdicts(
    tmp_path: Path, flags: tuple[str, ...], reward: float
) -> None:
    """Each completion is a vote of its own, whatever the strictness; one that cannot be read is a malformed one."""

    def policy(request: Json, number: int, index: int) -> str:
        return (verdict(1), verdict(0), "I cannot say.", verdict(1))[index]

    rows = [gold_row(0, correctness=1, harmfulness=0)]
    wanted = "--env.role=judge", "--env.aspects=correctness,harmfulness", "--env.strictness=3"
    batch, _ = await one_batch(
        tmp_path, rows, *wanted, *flags, judge=saying(by_place), policy=policy
    )
    assert len(batch) == 2
    for group in batch:
        sections = shown({"messages": group["messages"][0][:-1]})
        assert sections["Submission"] == "Answer 0."
        is_gold = "accurate" in sections["Criteria"]
        assert group["scores"] == ([1, 0, reward, 1] if is_gold else [0, 1, reward, 0])
        assert group["overrides"] is None


@pytest.mark.slow
async def test_an_evaluation_beside_the_training_is_of_the_policy_in_training(
    tmp_path: Path,
) -> None:
    """The rows' own answers are the dataset's: judged again at each step, they would say nothing of what is trained."""
    arena = task_flags(
        tmp_path,
        [answered(number) for number in range(3)],
        "--env.aspects=correctness",
        "--env.write_report=True",
        f"--env.data_dir_to_save_evals={tmp_path / 'run'}",
    )
    with refusing() as nobody:
        async with serve(
            arena,
            nobody,
            policy=sampling(attempt),
            judge=saying(lambda aspect, submission: submission.startswith("Attempt")),
            env_type=AspectCritiqueEnv,
        ) as served:
            metrics = await evaluate_during_training(Evaluation(served.env), 1)
    answers = {sample["model_answer"] for sample in RunFiles(tmp_path / "run" / "step-1").samples}
    assert answers == {"Attempt 0 at it."}
    assert metrics.values["eval/mean_reward"] == 1.0
    assert Written.read(tmp_path / "run" / "step-1" / "report.html").order == ["r0", "r1", "r2"]


def test_without_a_question_there_is_nothing_to_train_on(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "train.jsonl", [{"answer": "Just this."}])
    with refusing() as url:
        flags = (
            f"--openai.base_url={url}",
            f"--env.judge_base_url={url}",
            f"--env.rollout_server_url={url}",
        )
        argv = ["serve", *flags, f"--env.train_dataset={data}", "--env.steps_per_eval=-1"]
        ended = in_process(*argv, env_type=AspectCritiqueEnv)
    assert ended.code == 2, ended.said
    assert "has a question" in ended.said
    assert "Traceback" not in ended.said
