"""An environment of OpenEnv's kind with the README's rubric, and compositions of rubrics; prints what comes of them.

Arguments: questions with their answers as JSON, the README's example of a rubric with the server's
    URL.
"""

import asyncio
import json
import sys

import httpx
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.rubrics import Gate, Rubric, RubricDict, RubricList, Sequential, WeightedSum

from judgegym_trainers.openenv.rubric import FailSafe, JudgeRubric

sys.path.insert(0, __file__.rpartition("/")[0])
from serving import serving

pairs, example = json.loads(sys.argv[1]), sys.argv[2]
space = {}
exec(example, space)


class Answer(Action):
    question: str
    answer: str


class Marked(Observation):
    question: str = ""


class Length(Rubric):
    def forward(self, action, observation):
        return 0.25


class Chosen(Rubric):
    """Aggregates by itself, as the containers without an aggregation ask for."""

    def __init__(self, children):
        super().__init__()
        self.held = children

    def forward(self, action, observation):
        return self.held["judge" if isinstance(self.held, RubricDict) else 0](action, observation)


class Quiz(Environment):
    rubric_of = staticmethod(lambda: space["rubric"])

    def __init__(self):
        super().__init__(rubric=self.rubric_of())

    def reset(self, seed=None, episode_id=None, **further):
        return Marked()

    def step(self, action, timeout_s=None, **further):
        observation = Marked(question=action.question, done=True)
        observation.reward = self._apply_rubric(action, observation)
        return observation

    @property
    def state(self):
        return State()


class AsyncQuiz(Quiz):
    async def step_async(self, action, timeout_s=None, **further):
        observation = Marked(question=action.question, done=True)
        observation.reward = await self._apply_rubric_async(action, observation)
        return observation


async def rewards(quiz):
    with serving(create_app(quiz, Answer, Marked, env_name="quiz")) as url:
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            steps = [
                {"action": {"question": question, "answer": answer}} for question, answer in pairs
            ]
            answers = await asyncio.gather(*(http.post("/step", json=step) for step in steps))
            bodies = [answer.json() for answer in answers]
            return [[body["reward"], body["observation"]["metadata"]] for body in bodies]


def judge():
    return JudgeRubric(space["URL"], prompt="observation.question", response="action.answer")


COMPOSED = {
    "sequential": lambda: Sequential(judge(), Length()),
    "gate": lambda: Gate(judge(), threshold=0.5),
    "weighted": lambda: WeightedSum([judge(), Length()], weights=[0.5, 0.5]),
    "dict": lambda: Chosen(RubricDict({"judge": judge()})),
    "list": lambda: Chosen(RubricList([judge()])),
    "nested": lambda: Sequential(
        WeightedSum([Length(), Gate(judge(), 0.1)], weights=[0.5, 0.5]), Length()
    ),
}


async def composed():
    """The score of each pair by each composition, in async code, with what its parts have kept."""
    found = {}
    for name, make in COMPOSED.items():
        found[name] = []
        for question, answer in pairs:
            rubric = FailSafe(make())
            score = await rubric(
                Answer(question=question, answer=answer), Marked(question=question)
            )
            inside = {path: part.last_score for path, part in rubric.named_rubrics()}
            found[name].append([score, rubric.last_score, inside])
    return found


async def in_process():
    """The same scores by a judge in this process, in async code and in threads without any."""
    rubric = JudgeRubric(
        judge=space["JUDGE"], prompt="observation.question", response="action.answer"
    )
    steps = [
        (Answer(question=question, answer=answer), Marked(question=question))
        for question, answer in pairs
    ]
    awaited = await asyncio.gather(*(rubric(*step) for step in steps))
    blocking = await asyncio.gather(*(asyncio.to_thread(rubric, *step) for step in steps))
    return [awaited, blocking]


async def unsafe():
    """What OpenEnv's containers make of `None`."""
    found = {}
    for name in ("sequential", "gate", "weighted"):
        for question, answer in pairs:
            observation = Marked(question=question)
            try:
                score = await COMPOSED[name]()(
                    Answer(question=question, answer=answer), observation
                )
            except TypeError as error:
                score = type(error).__name__
            if observation.metadata["judge_failed"]:
                found[name] = score
    return found


async def main():
    return {
        "sync": await rewards(Quiz),
        "async": await rewards(AsyncQuiz),
        "composed": await composed(),
        "in_process": await in_process(),
        "unsafe": await unsafe(),
        "parts": [
            type(part).__name__ for _, part in FailSafe(COMPOSED["nested"]()).named_rubrics()
        ],
    }


print(json.dumps(asyncio.run(main())))
