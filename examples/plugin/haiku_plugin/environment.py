"""Haiku: the policy writes a poem of three lines on a topic, and a judge scores it by a rubric."""

from collections.abc import Sequence
from dataclasses import dataclass

from judgegym import environments as envs
from judgegym.judges.rubrics.judge import RubricDetail
from judgegym.judges.rubrics.prompt import RubricJudgeSettings

RUBRIC = "Is this a haiku in three lines, with an image that surprises?"


@dataclass(frozen=True)
class Topic:
    uid: str
    question: str
    category: str | None = None


class HaikuConfig(envs.EnvConfig, RubricJudgeSettings):
    topics: list[str] = envs.setting(
        ["rain", "a late train", "tea"], "Ask for poems about these.", common=True
    )


class HaikuEnv(envs.JudgedEnv[HaikuConfig, Topic, RubricDetail]):
    """Poems of three lines, scored by a rubric."""

    spec = envs.EnvSpec(name="haiku", headline=("mean_score", "score"), judge="rubric")

    def tasks(self, split: envs.Split) -> Sequence[Topic]:
        return [Topic(topic, f"Write a haiku about {topic}.") for topic in self.config.topics]

    def conversations(self, task: Topic) -> list[envs.Conversation]:
        return [[*self.system_messages, {"role": "user", "content": task.question}]]

    async def judge(
        self, task: Topic, completions: Sequence[envs.Completion]
    ) -> envs.Judgment[RubricDetail]:
        return await self.answer_judge.judge(
            envs.JudgeTask(task.question, (completions[0].answer,), rubric=RUBRIC)
        )

    def reward(self, judgment: envs.Judgment[RubricDetail]) -> float:
        return self.config.scale.unit(super().reward(judgment))

    def record_metrics(
        self, metrics: envs.MetricAggregator, task: Topic, sample: envs.Sample[RubricDetail]
    ) -> None:
        # There is no score if the policy's answer is malformed.
        score = self.config.scale.low if sample.score is None else sample.score
        metrics.mean("mean_score", score, interval=True, ends=(1, 5))
