"""A taskset of somebody else, whose tasks have what a judge needs, and no reward of their own."""

from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["Questions"]

QUESTIONS = (
    "Why is the sky blue?",
    "What does yeast do in bread?",
    "Why do leaves fall in autumn?",
)


class Question(vf.TaskData):
    answer: str
    rubric: str
    baseline: str


class QuestionTask(vf.Task[Question, vf.State, vf.TaskConfig]):
    """A class of its own: `vf-replay` takes the type of the data from it."""


class Questions(vf.Taskset[QuestionTask, vf.TasksetConfig]):
    def load(self) -> Iterator[QuestionTask]:
        for number, question in enumerate(QUESTIONS):
            answer = f"An answer about {question[4:-1].lower()}, in a few words."
            data = Question(
                name=f"question {number}",
                prompt=question,
                answer=answer,
                rubric="Is the answer true and short?",
                baseline=f"Nobody knows. {number}",
            )
            yield QuestionTask(data, self.config.task)
