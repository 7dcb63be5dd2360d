"""The doors of Python: trainers' functions with a judge in their process, notebooks, batches, actors."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeVar

from judgegym import Jury, RewardJudge
from judgegym.datasets.cluster.actors import JudgeActor
from judgegym.datasets.cluster.batches import BatchScorer
from judgegym.datasets.rows.task import DatasetJudgeSettings
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.core.tasks import JudgeTask
from judgegym.llm.errors import SettingsError
from judgegym_trainers import openrlhf, slime, trl, verl
from judgegym_trainers.scores.sources import JudgeSource
from judgegym_trainers.single_turn import EnvironmentSource, close_all
from judgegym_trainers.single_turn import get_environment as opened_environment
from tests.command import write_lines
from tests.conformance.doors.door import ROWS, Door, RefusedError, Scores, Visit
from tests.conformance.doors.judges import QUESTIONS

ResultT = TypeVar("ResultT")


def _accepted(call: Callable[[], ResultT]) -> ResultT:
    """What a call returns.

    Raises:
        RefusedError: a setting is wrong.
    """
    try:
        return call()
    except SettingsError as error:
        raise RefusedError(2, str(error)) from error


def _asked(call: Callable[[], Awaitable[ResultT]]) -> ResultT:
    async def awaited() -> ResultT:
        return await call()

    return _accepted(lambda: asyncio.run(awaited()))


def _trl(visit: Visit) -> Scores:
    async def rewarded() -> Scores:
        reward = trl.judge_reward(judge=visit.fields())
        scores = await reward([*QUESTIONS], [*QUESTIONS.values()])
        await trl.close(reward)
        return scores

    return _asked(rewarded)


def _trl_environment(visit: Visit) -> Scores:
    """The environment `prompts` where the trainer samples."""
    data = write_lines(
        visit.folder / "prompts.jsonl", [{"prompt": question} for question in QUESTIONS]
    )
    flags = [
        f"--env.train_dataset={data}",
        "--env.min_response_length=0",
        *visit.flags("--env."),
        *visit.place("--env."),
    ]
    try:
        environment = _accepted(
            lambda: opened_environment(EnvironmentSource("prompts", tuple(flags)))
        )
        results = [
            environment.rewards_sync(uid, [text])
            for uid, text in zip(environment.uids, QUESTIONS.values(), strict=True)
        ]
        return [result.reward for (result,) in results]
    finally:
        close_all()


def _openrlhf(visit: Visit) -> Scores:
    reward = _accepted(lambda: openrlhf.reward_function(judge=visit.fields(), on_failure="score"))
    queries = [f"{question} {text}" for question, text in QUESTIONS.items()]
    done = _accepted(
        lambda: reward(queries, [f"{question} " for question in QUESTIONS], [None, None])
    )
    return [float(value) for value in done["rewards"]]


def _slime(visit: Visit) -> Scores:
    async def rewarded() -> Scores:
        samples = [
            SimpleNamespace(prompt=question, response=text, label=None, metadata={}, group_index=number, index=number,
                            status="completed", remove_sample=False)
            for number, (question, text) in enumerate(QUESTIONS.items())
        ]  # fmt: skip
        known = {"rm_url": None, "group_rm": False, "reward_key": None, "eval_reward_key": None}
        arguments = SimpleNamespace(**known, judgegym={"judge": visit.fields()})
        try:
            return [await slime.reward(arguments, sample) for sample in samples]
        finally:
            await slime.close()

    return _asked(rewarded)


def _verl(visit: Visit) -> Scores:
    async def rewarded() -> Scores:
        try:
            done = [
                await verl.compute_score(
                    "data",
                    text,
                    None,
                    {"question": question},
                    judge=visit.fields(),
                    on_failure="score",
                )
                for question, text in QUESTIONS.items()
            ]
            return [each["score"] for each in done]
        finally:
            await verl.close()

    return _asked(rewarded)


def _jury_in_python(visit: Visit) -> Scores:
    given = visit.fields()
    with _accepted(
        lambda: Jury({"own": given_judge(visit), "other": {"judge": "rubric"}}, **without(given))
    ) as judge:
        return [judge.judge_sync(question, text).scores[0] for question, text in QUESTIONS.items()]


def _reward_in_python(visit: Visit) -> Scores:
    with _accepted(
        lambda: RewardJudge(reward={"own": given_judge(visit)}, **without(visit.fields()))
    ) as judge:
        return [judge.judge_sync(question, text).scores[0] for question, text in QUESTIONS.items()]


def given_judge(visit: Visit) -> dict[str, Any]:
    """The settings of the judge without its endpoint."""
    return dict(visit.settings)


def without(fields: dict[str, Any]) -> dict[str, Any]:
    """The endpoint without the settings of the judge."""
    return {
        name: value
        for name, value in fields.items()
        if name in ("offline", "judge_base_url", "judge_max_retries")
    }


def _batches(visit: Visit) -> Scores:
    """As `judgegym.hf` and `judgegym.ray` send it to another process."""
    scorer = pickle.loads(pickle.dumps(_accepted(lambda: BatchScorer(visit.fields()))))
    batch = {name: [row[name] for row in ROWS] for name in ("prompt", "response")}
    scores: Scores = scorer(batch)["judge/score"]
    scorer.close()
    return scores


def _actor(visit: Visit) -> Scores:
    """As an actor of `judgegym score --ray` gets its settings and tasks, pickled."""
    settings = _accepted(lambda: settings_from_keywords(DatasetJudgeSettings, visit.fields()))

    async def judged() -> Scores:
        actor = JudgeActor(*pickle.loads(pickle.dumps((settings, ""))))
        tasks = [JudgeTask(question, (text,)) for question, text in QUESTIONS.items()]
        results = [await actor.score(pickle.loads(pickle.dumps(task)), {}, "") for task in tasks]
        await actor._stack.aclose()
        return [result.score for (result,), _ in results]

    return asyncio.run(judged())


def _server_source(visit: Visit) -> Scores:
    """The settings of a judge as other plugins take them."""

    async def rewarded() -> Scores:
        scoring = JudgeSource(judge=visit.fields()).make_scorer()
        done = await scoring.score_each(
            [_row(question, text) for question, text in QUESTIONS.items()]
        )
        await scoring.close()
        return [each.reward for each in done]

    return _asked(rewarded)


def _row(question: str, text: str) -> Any:
    from judgegym_trainers.scores.requests import make_completion_row

    return make_completion_row(question, text)


IN_PYTHON = (
    Door("trl", _trl),
    Door("trl-environment", _trl_environment),
    Door("openrlhf-function", _openrlhf),
    Door("slime-function", _slime),
    Door("verl-function", _verl),
    Door("other-trainers", _server_source),
    Door("jury-in-python", _jury_in_python),
    Door("reward-in-python", _reward_in_python),
    Door("batches", _batches),
    Door("ray-actor", _actor, has_stand_in=False),
)
