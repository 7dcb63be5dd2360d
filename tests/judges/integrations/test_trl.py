"""TRL's reward functions: its calling convention, over a server and with the judge in this process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError

from judges.integrations.trl import close, judge_reward
from judges.server.settings import JudgeMount
from tests.judges.server.running import asked, running
from tests.scripted import Json, ScriptedEndpoint

PROMPTS = [[{"role": "user", "content": f"Question {number // 2}?"}] for number in range(4)]
COMPLETIONS = [[{"role": "assistant", "content": text}] for text in ("good", "bad", "FAIL", "good")]


def judge(request: Json, number: int) -> str:
    response = asked(request).partition("### Response To Evaluate\n\n")[2]
    if response.startswith("FAIL"):
        return "I cannot say."
    return f"[FEEDBACK] Seen. [SCORE] {5 if response.startswith('good') else 1}"


async def test_failed_judge_has_the_score_none() -> None:
    extra: dict[str, list[Any]] = {}
    metrics: dict[str, float] = {}
    async with running(judge=judge) as server:
        reward = judge_reward(server.url)
        scores = await reward(
            PROMPTS,
            COMPLETIONS,
            completion_ids=[[1]] * 4,
            log_extra=lambda name, values: extra.update({name: values}),
            log_metric=lambda name, value: metrics.update({name: value}),
            reference_answer=["one", None, None, "four"],
            rubric=["Is it good?"] * 4,
            trainer_state=object(),
        )
        await close(reward)
        shown = [asked(request) for request in server.judge.bodies]
    assert scores == [1.0, 0.0, None, 1.0]
    assert reward.__name__ == "judge"
    assert extra["judge_status"] == ["ok", "ok", "unparsable", "ok"]
    assert metrics == {"judge_failed": 0.25}
    assert all("### Score Rubric\n\nIs it good?" in text for text in shown)
    assert sum("### Reference Response\n\none" in text for text in shown) == 1
    assert sum("### Instruction\n\nQuestion 0?" in text for text in shown) == 2


async def test_plain_texts_and_an_empty_batch() -> None:
    async with running(judge=judge) as server:
        reward = judge_reward(server.url)
        assert await reward(["Q", "Q"], ["good", "bad"]) == [1.0, 0.0]
        assert await reward([], []) == []
        await close(reward)


async def test_judge_in_this_process_gives_scores() -> None:
    async with ScriptedEndpoint(judge) as endpoint:
        mount = JudgeMount(judge="rubric", judge_base_url=endpoint.base_url, judge_max_retries=0)
        reward = judge_reward(judge=mount)
        assert await reward(PROMPTS, COMPLETIONS) == [1.0, 0.0, None, 1.0]
        await close(reward)


async def test_groups_are_judged_together() -> None:
    def best(request: Json, number: int) -> str:
        text = asked(request)
        return "[[A]]" if text.index("good") < text.index("The End of Assistant A") else "[[B]]"

    async with running("--judge=choice", judge=best) as server:
        reward = judge_reward(server.url, group_relative=True)
        scores = await reward(["Q1", "Q1", "Q2", "Q2"], ["good", "x", "y", "good"])
        await close(reward)
    assert scores == [1.0, 0.0, 0.0, 1.0]
    assert len(server.judge.requests) == 2


def test_each_batch_in_an_event_loop_of_its_own() -> None:
    async def whole() -> tuple[str, list[list[float | None]]]:
        async with running(judge=judge) as server:
            reward = judge_reward(server.url)

            def batch() -> list[float | None]:
                async def once() -> list[float | None]:
                    try:
                        return await reward(["Q"], ["good"])
                    finally:
                        await close(reward)

                return asyncio.run(once())

            return server.url, [await asyncio.to_thread(batch) for _ in range(3)]

    assert asyncio.run(whole())[1] == [[1.0]] * 3


async def test_a_request_that_is_refused_is_said() -> None:
    async with running("--judge=choice") as server:
        reward = judge_reward(server.url)
        with pytest.raises(ValueError, match="2 to 26"):
            await reward(["Q"], ["alone"])
        await close(reward)


def test_misspelt_setting_of_a_judge_is_refused() -> None:
    with pytest.raises(ValidationError, match="judge_temprature"):
        JudgeMount(judge="rubric", judge_temprature=0.1)


def test_neither_or_both_sources_are_refused() -> None:
    with pytest.raises(ValueError, match="either"):
        judge_reward()
    with pytest.raises(ValueError, match="either"):
        judge_reward("http://127.0.0.1:1", judge=JudgeMount())


async def test_the_real_trainer_takes_none(tmp_path: Any) -> None:
    """TRL's own call of reward functions, on the trainer's own method."""
    trl = pytest.importorskip("trl", reason="trl is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    datasets = pytest.importorskip("datasets")
    transformers = pytest.importorskip("transformers")
    from environments.settings import BUNDLED_TOKENIZER

    tokenizer = transformers.AutoTokenizer.from_pretrained(str(BUNDLED_TOKENIZER))
    tiny = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    rows = datasets.Dataset.from_list([{"prompt": "Q", "rubric": "Is it good?"}] * 4)

    def rewards_of(url: str) -> Any:
        trainer = trl.GRPOTrainer(
            model=transformers.LlamaForCausalLM(tiny),
            reward_funcs=judge_reward(url),
            args=trl.GRPOConfig(
                output_dir=str(tmp_path),
                per_device_train_batch_size=4,
                num_generations=4,
                max_completion_length=4,
                report_to=[],
                use_cpu=True,
                bf16=False,
            ),
            train_dataset=rows,
            processing_class=tokenizer,
        )
        inputs = [{"prompt": "Q", "rubric": "Is it good?"} for _ in range(4)]
        completions = ["good", "bad", "FAIL", "good"]
        return trainer._calculate_rewards(inputs, ["Q"] * 4, completions, [[1]] * 4)

    async with running(judge=judge) as server:
        rewards = await asyncio.to_thread(rewards_of, server.url)
    first = rewards[:, 0].tolist()
    assert torch.isnan(rewards[2, 0])
    assert [first[0], first[1], first[3]] == [1.0, 0.0, 1.0]
