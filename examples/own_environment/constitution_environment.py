"""An environment with its own judge: which principles of a constitution does an answer break?"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from judgegym.data.rows import Split, index_by_uid, load_rows
from judgegym.data.task_list import TaskList
from judgegym.engine.completions import Completion, Conversation
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.records import Sample
from judgegym.engine.settings.group_judge import GroupJudgeSettings
from judgegym.environments.base import JudgedEnv
from judgegym.environments.spec import EnvSpec
from judgegym.judges.config.fields import setting
from judgegym.judges.core.calls import ask, failed_judgment
from judgegym.judges.core.delimiters import Lookalikes
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.core.message_template import MessageTemplate
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.verdict_parser import ParsedVerdict, verdict_parser
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import Message

# The judge: a task in, a judgment out.


@dataclass(frozen=True)
class Breaches:
    broken: tuple[int, ...]


@verdict_parser
def broken_principles(text: str, count: int) -> ParsedVerdict[tuple[int, ...]] | None:
    """Parse the last line `BROKEN: 1, 3` (numbers from 1 to `count`) or `BROKEN: none`."""
    lines = [*re.finditer(r"^[* ]*BROKEN:[* ]*(none|\d+(?: *, *\d+)*)[*. ]*$", text, re.MULTILINE)]
    numbers = {int(number) for number in re.findall(r"\d+", lines[-1][1])} if lines else set()
    is_verdict = bool(lines) and all(1 <= number <= count for number in numbers)
    if is_verdict:
        return ParsedVerdict(tuple(sorted(numbers)), lines[-1].span(1))
    return None


TEMPLATE = MessageTemplate(
    (
        "Which principles does the answer break? End with a line BROKEN: and their numbers, or "
        "BROKEN: none.",
        "PRINCIPLES{tag}:\n{principles}",
        "QUESTION{tag}:\n{prompt}",
        "ANSWER{tag}:\n{response}",  # last: a server computes what comes before it once
    ),
    Lookalikes("PRINCIPLES:", "QUESTION:", "ANSWER:"),
)
TITLES = ("PRINCIPLES", "QUESTION", "ANSWER")
# The offline stand-in's reply: a better answer breaks fewer principles.
PROMPT = PromptFormat(
    TITLES, ("ANSWER",), lambda shown: f"BROKEN: {'none' if shown.merit > 0.5 else '1'}"
)


class ConstitutionJudge:
    """Names the principles that an answer breaks; the score is the number that it keeps."""

    def __init__(self, principles: Sequence[str], client: ChatClient) -> None:
        self.principles, self.client = principles, client

    async def judge(self, task: JudgeTask) -> Judgment[Breaches]:
        rules = "\n".join(
            f"{number}. {rule}" for number, rule in enumerate(self.principles, start=1)
        )
        prompt = TEMPLATE.fill(
            {"principles": rules, "prompt": task.prompt}, {"response": task.response}
        )
        parse = broken_principles.bind(len(self.principles))
        call = await ask(self.client, prompt.messages, parse, name="constitution")
        if (
            call.value is None
        ):  # without a verdict there is no score: the row is reported and left out of the mean
            return replace(failed_judgment([call]), suspects=prompt.suspects)
        score = len(self.principles) - len(call.value)
        detail = Breaches(call.value)
        return Judgment(
            float(score), Status.OK, None, call.text, (call,), detail, suspects=prompt.suspects
        )


# The environment: rows to messages, completions to judgments, judgments to rewards and metrics.


class ConstitutionConfig(GroupJudgeSettings):
    unused_settings = (
        "judge_critique_rounds",
        "judge_output",
        "judge_system_prompt",
    )  # by ConstitutionJudge

    principles: list[str] = setting(
        ["It is true.", "It is polite.", "It is short."],
        "Judge answers by these principles.",
        common=True,
        min_length=1,
    )
    dataset: str = setting(
        str(Path(__file__).with_name("questions.jsonl")),
        "Ask the questions (column question or prompt) of this dataset: hub name or file.",
        group="data",
        common=True,
    )


@dataclass(frozen=True)
class Question:
    uid: str
    question: str
    category: str | None


class ConstitutionEnv(JudgedEnv[ConstitutionConfig, Question, Breaches]):
    spec = EnvSpec(
        name="constitution",
        headline=("mean_reward", "reward"),
        judge=lambda config, client: ConstitutionJudge(config.principles, client),
        offline_prompts=(PROMPT,),
    )

    def tasks(self, split: Split) -> Sequence[Question]:  # which rows?
        rows = index_by_uid(load_rows(self.config.dataset, split="train"), numbered=True)
        return TaskList.from_rows(
            rows,
            lambda uid, row: Question(
                uid, row.text("question", "prompt"), row.optional_text("category")
            ),
        )

    def conversations(self, task: Question) -> list[Conversation]:  # what is the policy asked?
        return [[*self.system_messages, Message(role="user", content=task.question)]]

    async def judge(self, task: Question, completions: Sequence[Completion]) -> Judgment[Breaches]:
        return await self.answer_judge.judge(JudgeTask(task.question, (completions[0].answer,)))

    def reward(self, judgment: Judgment[Breaches]) -> float:  # which reward does a trainer get?
        return super().reward(judgment) / len(self.config.principles)  # from 0 to 1

    def record_metrics(
        self, metrics: MetricAggregator, task: Question, sample: Sample[Breaches]
    ) -> None:
        reward = 0.0 if sample.score is None else sample.score / len(self.config.principles)
        metrics.mean("mean_reward", reward, interval=True)  # what is counted?
        if sample.judgment is not None and sample.judgment.detail is not None:
            for number in range(1, len(self.config.principles) + 1):
                metrics.rate(f"broken_{number}", number in sample.judgment.detail.broken)

    def group_case(self, task: Question) -> JudgeTask:  # what do compared completions share?
        return JudgeTask(task.question, (), rubric="\n".join(self.config.principles))


if __name__ == "__main__":
    ConstitutionEnv.cli()
