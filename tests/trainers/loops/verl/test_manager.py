"""The reward manager in verl's own reward loop: workers in Ray, groups, and rewards where its trainer reads them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.core.server.running import running
from tests.scripted import Json, ScriptedEndpoint
from tests.trainers.loops import trainers
from tests.trainers.loops.examples import example, swap
from tests.trainers.loops.groups import ANSWERS, QUESTIONS, asked_directly, failed_among, with_means
from tests.trainers.loops.offline import OfflineJudge

SAMPLES = [
    {"uid": f"uid {number}", "prompt": question, "response": text, "truth": "Since."}
    for number, question in enumerate(QUESTIONS)
    for text in ANSWERS
]
SIZE = f"actor_rollout_ref.rollout.n={len(ANSWERS)}"
OURS = [
    word
    for word in shlex.split(example("verl", "bash", 2))
    if word.startswith("reward.reward_manager")
]
KWARGS = "+reward.custom_reward_function.reward_kwargs"
TOKENIZER = "judgegym/environments/rollouts/tokenizers/bytes"
PATIENCE_S = 300.0
KEYS = {
    "reward",
    "score",
    "judge_failed",
    "invalid_completion",
    "judge_status",
    "judge_explanation",
}


def case(
    how: str, *overrides: str, samples: Any = SAMPLES, router: str | None = None, workers: int = 2
) -> Json:
    given = [f"reward.num_workers={workers}", SIZE, "algorithm.adv_estimator=grpo", *overrides]
    return {"how": how, "overrides": given, "samples": samples, "router": router}


def judge_of(endpoint: ScriptedEndpoint, **settings: object) -> list[str]:
    """The overrides of a judge in verl's processes."""
    known = {
        "judge_base_url": endpoint.base_url,
        "judge_model_name": "the-judge",
        "judge_max_retries": 0,
        **settings,
    }
    return [f"{KWARGS}.judge.{name}={value}" for name, value in known.items()]


async def run(*cases: Json) -> list[list[Json]]:
    """The rewards of each case; they are in one process, since verl takes long to be imported."""
    ended = await trainers.run("verl", "loop.py", list(cases), patience_s=PATIENCE_S)
    assert ended.code == 0, ended.err
    results: list[list[Json]] = ended.result
    return results


def are(results: Sequence[Json], scores: Sequence[float | None]) -> None:
    """Every reward is that score; rewards of a batch are float32, as verl's tensor is."""
    for result, score in zip(results, scores, strict=True):
        assert set(result) in (
            KEYS,
            KEYS - {"judge_status", "judge_explanation"},
        )  # those of the function
        assert result["score"] == (score or 0.0)
        assert result["reward"] in (result["score"], float(np.float32(result["score"])))
        assert (result["judge_failed"], result["invalid_completion"]) == (0.0, float(score is None))


@pytest.mark.timeout(360)
async def test_groups_of_a_batch_meet_across_workers() -> None:
    """By the README's settings at a server, and with a judge in verl's processes; the batch whole, and one by one."""
    mixed = [SAMPLES[place] for place in (3, 6, 0, 5, 1, 4, 7, 2)]
    words = [word for word in shlex.split(example("verl", "bash", 2)) if "=" in word]
    async with running("--judge=listwise", judge=OfflineJudge()) as server:
        scores = await asked_directly(server, together=True)
        url = [
            swap(word, ("http://127.0.0.1:8400", server.url)) if "127.0.0.1" in word else word
            for word in words
        ]
        before = len(server.judge.requests)
        local = [*OURS, *judge_of(server.judge, judge="listwise")]
        cases = case("batch", *url), case("stream", *url, samples=mixed), case("stream", *local)
        batch, stream, in_process = await run(*cases)
        asked_for = len(server.judge.requests) - before
    are(batch, scores)
    are(stream, [scores[SAMPLES.index(each)] for each in mixed])
    are(in_process, scores)
    assert len({score for score in scores if score}) > 1
    # A call for each group in each run; two runs that meet at the server share equal calls in flight.
    assert 2 * len(QUESTIONS) <= asked_for <= 3 * len(QUESTIONS)


@pytest.mark.timeout(360)
async def test_every_third_judgment_fails() -> None:
    """Samples by themselves: what failed has the mean of its group, flagged; the others have their own scores."""
    async with running("--judge=rubric", judge=OfflineJudge()) as server:
        scores = await asked_directly(server)
    judge, of_groups = OfflineJudge(every_third_fails=True), OfflineJudge(every_third_fails=True)
    third = [
        {**each, "uid": "third", "prompt": "Why is it so?"} for each in SAMPLES[: len(ANSWERS)]
    ]
    async with ScriptedEndpoint(judge) as endpoint, ScriptedEndpoint(of_groups) as comparing:
        overrides = [*OURS, *judge_of(endpoint, judge="rubric")]
        compared = [
            *OURS,
            *judge_of(comparing, judge="listwise"),
            f"{KWARGS}.fallback_score=-0.5",
        ]
        results, groups = await run(
            case("stream", *overrides), case("batch", *compared, samples=[*SAMPLES, *third])
        )
    failed = failed_among(
        [(str(sample["prompt"]), str(sample["response"])) for sample in SAMPLES], judge
    )
    expected = with_means(scores[:4], failed[:4]) + with_means(scores[4:], failed[4:])
    assert [result["score"] for result in results] == expected
    assert [result["judge_status"] == "judge_failed" for result in results] == failed
    assert [bool(result["judge_failed"]) for result in results] == failed
    # Of the three groups one has failed as a whole: nothing but its empty answers has a reward,
    # which stands for all.
    failed_of = [
        [sample["judge_failed"] for sample in groups[start : start + 4]] for start in (0, 4, 8)
    ]
    assert sorted(failed_of) == [[0.0] * 4, [0.0] * 4, [1.0, 1.0, 1.0, 0.0]]
    assert {sample["score"] for sample in groups if sample["judge_failed"]} == {0.0}


@pytest.mark.slow
@pytest.mark.timeout(360)
async def test_a_deployed_reward_model_is_the_judge(tmp_path: Path) -> None:
    """By the example's file: the router that verl names, and the model's name; in the manager and in the function."""
    folder = trainers.ROOT / "judgegym_trainers/verl/config"
    ours = [f"hydra.searchpath=[file://{folder}]", "+judgegym=deployed_judge"]
    model = ["reward.reward_model.enable=true", f"reward.reward_model.model_path={TOKENIZER}"]
    path = "reward.custom_reward_function.path=pkg://judgegym_trainers.verl"
    function = [
        "reward.reward_model.rollout.name=vllm",
        path,
        f"{KWARGS}.judge.judge=rubric",
        f"{KWARGS}.on_failure=score",
    ]
    asked = [{**each, "extra_info": {"question": each["prompt"]}} for each in SAMPLES]
    name = f"--judge_model_name={TOKENIZER}"  # the stand-in's answers depend on it
    async with running("--judge=listwise", name, judge=OfflineJudge()) as server:
        compared = await asked_directly(server, together=True)
        without_reference = await asked_directly(server, together=True, reference=None)
    async with running("--judge=rubric", name, judge=OfflineJudge()) as server:
        single = await asked_directly(server)
    async with ScriptedEndpoint(OfflineJudge()) as router:
        address = router.base_url.removeprefix("http://").removesuffix("/v1")
        bare = [
            {**each, "bare": True} for each in SAMPLES
        ]  # as the trainer of v1 sends them to shared GPUs
        by_manager, of_bare, by_function = await run(
            case("worker", *ours, *model, router=address),
            case("worker", *ours, *model, samples=bare, router=address),
            case("worker", *model, *function, samples=asked, router=address),
        )
        models = {request["model"] for request in router.bodies}
    are(by_manager, compared)
    are(of_bare, without_reference)
    are(by_function, single)
    assert models == {TOKENIZER}


@pytest.mark.slow
@pytest.mark.timeout(360)
async def test_rows_of_an_environment(tmp_path: Path) -> None:
    """Each completion by itself, and compared; and samples that are alone in a validation, which wait for nobody."""
    from judgegym_trainers.single_turn import EnvironmentSource, close_all, get_environment
    from judgegym_trainers.verl.dataset import write_rows

    source = EnvironmentSource.from_settings("rubric_absolute", offline=True)
    count = write_rows(source, tmp_path / "train.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert len(lines) == count
    texts = [text for text in ANSWERS if text]
    environment = get_environment(source)
    uids = [line["extra_info"]["uid"] for line in lines[:2]]
    ours = [each.reward for uid in uids for each in await environment.rewards(uid, texts)]
    of_groups = get_environment(
        EnvironmentSource.from_settings(
            "rubric_absolute", {"group_judge": "listwise"}, offline=True
        )
    )
    compared = [each.reward for uid in uids for each in await of_groups.rewards(uid, texts)]
    close_all()
    samples = [
        {"uid": f"u{number}", "prompt": "P", "response": text, "extra_info": line["extra_info"]}
        for number, line in enumerate(lines[:2])
        for text in texts
    ]
    names = [
        f"{KWARGS}.environment.environment=rubric_absolute",
        f"{KWARGS}.environment.offline=true",
    ]
    size = f"actor_rollout_ref.rollout.n={len(texts)}"
    together = [*OURS, *names, f"{KWARGS}.environment.settings.group_judge=listwise", size]
    validation = [
        {**each, "uid": each["response"], "extra_info": {"split": "test"}} for each in SAMPLES[:4]
    ]
    alone = [
        *OURS,
        f"{KWARGS}.judge.judge=listwise",
        f"{KWARGS}.judge.judge_base_url=http://127.0.0.1:9/v1",
    ]
    results, groups, single = await run(
        case("worker", *OURS, *names, samples=samples),
        case("worker", *together, samples=samples),
        case("worker", *alone, samples=validation),
    )
    assert [result["score"] for result in results] == ours
    assert [result["score"] for result in groups] == compared != ours
    assert {result["judge_failed"] for result in [*results, *groups]} == {0.0}
    assert [result["judge_failed"] for result in single] == [1.0, 1.0, 1.0, 0.0]
    assert [result["invalid_completion"] for result in single] == [0.0, 0.0, 0.0, 1.0]
