"""Images in environments: `prompts` asks and judges with them; what shows its judge none refuses such rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym.environments import PromptTask, prompt_tasks
from judgegym.environments.prompts_environment import PromptsEnv
from judgegym.llm.errors import DataError
from tests.command import in_process, serving, write_lines
from tests.pictures import data_url, png

WHAT = {"type": "text", "text": "What is this?"}
IMAGE = {"type": "image_url", "image_url": {"url": data_url(png())}}
MARK = {"type": "text", "text": "[image 1]"}
ROW = {"prompt": [{"role": "user", "content": [IMAGE, WHAT]}]}


@pytest.mark.slow
def test_images_go_along_in_each_turn_to_policy_user_and_judge(tmp_path: Path) -> None:
    data = write_lines(
        tmp_path / "data.jsonl",
        [{"turns": ["What is this?", "Are you sure?"], "image": data_url(png())}],
    )
    with (
        serving("It is [image 1], a red square.") as policy,
        serving(
            lambda body, number: "And now?" if number == 1 else "[END OF CONVERSATION]"
        ) as user,
        serving("[FEEDBACK] F [SCORE] 5") as judge,
    ):
        words = [f"--env.eval_dataset={data}", f"--env.data_dir_to_save_evals={tmp_path / 'run'}"]
        words += [f"--openai.base_url={policy.base_url}", f"--env.judge_base_url={judge.base_url}"]
        words += [
            f"--env.user_base_url={user.base_url}",
            "--env.user_max_turns=2",
            "--env.judged=turns",
        ]
        ended = in_process("evaluate", *words, "--openai.model_name=p", env_type=PromptsEnv)
        assert ended.code == 0, ended.said
        assert [body["messages"][0]["content"] for body in policy.bodies] == [[IMAGE, WHAT]] * 3
        assert [body["messages"][1]["content"][-2:] for body in user.bodies] == [[MARK, IMAGE]] * 2
        assert "[image 1]What is this?" in user.bodies[0]["messages"][2]["content"]
        assert [body["messages"][-1]["content"][1:] for body in judge.bodies] == [[MARK, IMAGE]] * 3
        assert all(
            "It is [¦image 1]" in body["messages"][-1]["content"][0]["text"]
            for body in judge.bodies
        )


def test_images_in_a_turn_that_is_asked_after_an_answer_are_refused(tmp_path: Path) -> None:
    talk = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Hi."},
        *ROW["prompt"],
    ]
    data = str(write_lines(tmp_path / "data.jsonl", [{"messages": talk}]))
    (last,) = prompt_tasks(data, turns="last", shows_images=True)
    assert last.messages[-1]["images"]
    with pytest.raises(DataError, match=r"row 1: images after .*asked_turns=all"):
        _ = prompt_tasks(data, turns="all", shows_images=True)[0]


@pytest.mark.parametrize("row", [ROW, {"prompt": "What is this?", "image": data_url(png())}])
def test_an_environment_that_shows_no_images_refuses_them(
    tmp_path: Path, row: dict[str, object]
) -> None:
    data = str(write_lines(tmp_path / "data.jsonl", [row]))
    with pytest.raises(DataError, match=r"data\.jsonl, row 1: .*would judge blind"):
        list(prompt_tasks(data))
    (task,) = prompt_tasks(data, shows_images=True)
    assert isinstance(task, PromptTask) and task.question == "[image 1]What is this?"
