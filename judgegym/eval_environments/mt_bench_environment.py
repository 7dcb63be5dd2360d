"""MT-Bench: two turns of a conversation, each rated from 1 to 10 or compared with a baseline's.

The files are those of lm-sys/FastChat, or have the same format; none is bundled. A question of two
turns is asked as a conversation: the user's second message follows the policy's first answer.
Questions of math, reasoning and coding are judged with reference answers. Comparisons are made in
both orders.

Source: Zheng et al., Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena (2023).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

if __name__ == "__main__":  # run as a script from any folder: the packages are next to this one
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    # Until the command handles it, Ctrl-C ends the process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from judgegym.data.answers import warn_unused_columns
from judgegym.data.rows import Row, Split, index_by_uid, load_rows
from judgegym.data.task_list import TaskList
from judgegym.engine.completions import Completion, Conversation
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.records import Sample
from judgegym.engine.settings import SAMPLES, EnvConfig
from judgegym.engine.terminal.summary import Outcome
from judgegym.environments.base import JudgedEnv
from judgegym.environments.spec import EnvSpec
from judgegym.judges import mt_bench
from judgegym.judges.arena import OUTCOMES
from judgegym.judges.config.explaining import TextOrFile, prompt_digest
from judgegym.judges.config.fields import setting
from judgegym.judges.config.judge import ReaskSettings
from judgegym.judges.core.judgment import Judgment
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.mt_bench import RATINGS, MTBenchDetail, TurnTask
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import DataError, SettingsError
from judgegym.llm.wire import Message

WITH_REFERENCES = ("math", "reasoning", "coding")
"""Categories whose questions are judged with reference answers."""
_CATEGORY = "_category_{category}"


class MTBenchConfig(ReaskSettings, EnvConfig):
    """Settings of MT-Bench."""

    unused_settings = ("judge_critique_rounds", "judge_system_prompt")

    judge_prompts: TextOrFile | None = setting(None, group="judge", common=True)
    """Use these prompts, @judge_prompts.jsonl in the format of MT-Bench; if unset, JudgeGym's own
    wording of them. To compare with published numbers, use the published ones."""
    question_dataset: str | None = setting(None, group="data", common=True)
    """Ask the questions of this dataset (column turns: one or two texts), hub name or file such as
    question.jsonl."""
    reference_dataset: str | None = setting(None, group="data", common=True)
    """Judge math, reasoning and coding by the answers of this dataset, such as FastChat's
    reference_answer/gpt-4.jsonl (columns question_id and choices)."""
    baseline_dataset: str | None = setting(None, group="data", common=True)
    """Compare each turn with the answers of this dataset, such as FastChat's
    model_answer/gpt-3.5-turbo.jsonl, once in each order, instead of rating it. A verdict that the
    other order does not confirm is a tie."""
    split: str = setting("train", group="data")
    """Use this split of hub datasets."""

    @property
    def prompts(self) -> str:
        """The prompts in use."""
        return self.judge_prompts or (SAMPLES / "mt_bench_prompts.jsonl").read_text("utf-8")

    def prompt_digests(self) -> dict[str, str]:
        """Return the digest of the prompts in use."""
        return {"judge_prompts": prompt_digest(self.prompts)}


@dataclass(frozen=True, slots=True)
class MTBenchTask:
    """A question of one or two turns; reference and baseline answers by turn may be empty."""

    uid: str
    question: str
    category: str | None
    turns: tuple[str, ...]
    reference: tuple[str, ...] = ()
    baseline: tuple[str, ...] = ()


def read_turn_texts(row: Row, path: str, *counts: int) -> tuple[str, ...]:
    """Return the texts of a row's turns.

    Raises:
        DataError: the number of texts is none of `counts`, or a text is blank.
    """
    value, texts = row.value(path), []
    if isinstance(value, list):
        texts = [text for text in value if isinstance(text, str)]
        texts = [text for text in texts if text.strip()]
    if len(texts) not in counts or texts != value:
        numbers = " or ".join(map(str, counts))
        raise row.missing_error(f"a list of {numbers} texts in {path}")
    return tuple(texts)


def open_mt_bench_judge(config: MTBenchConfig, client: ChatClient) -> mt_bench.MTBenchJudge:
    """Open the judge of conversations, with the prompts in use."""
    return mt_bench.MTBenchJudge(config, client, mt_bench.read_templates(config.prompts))


class MTBenchEnv(JudgedEnv[MTBenchConfig, MTBenchTask, MTBenchDetail]):
    """Rates conversations of two turns from 1 to 10, or compares them with a baseline's."""

    spec = EnvSpec(
        name="mt_bench",
        headline=("mean_score", "score"),
        judge=open_mt_bench_judge,
        offline_samples={
            f"{kind}_dataset": str(SAMPLES / f"mt_bench_{kind}.jsonl")
            for kind in ("question", "reference")
        },
        offline_prompts=(mt_bench.TURN_PROMPT, mt_bench.CONVERSATION_PROMPT),
    )

    def tasks(self, split: Split) -> Sequence[MTBenchTask]:
        """Load the questions, with their reference and baseline answers."""
        if self.config.question_dataset is None:
            raise SettingsError(
                "--env.question_dataset: expected questions, such as MT-Bench's question.jsonl"
            )
        rows = load_rows(self.config.question_dataset, split=self.config.split)
        warn_unused_columns(rows, (("turns",),))
        sources = {
            name: getattr(self.config, name) for name in ("reference_dataset", "baseline_dataset")
        }
        answers = {
            name: index_by_uid(load_rows(source, split=self.config.split))
            for name, source in sources.items()
            if source
        }

        def build(uid: str, row: Row) -> MTBenchTask:
            def read_answers(name: str, *, needed: bool) -> tuple[str, ...]:
                if needed and uid not in answers.get(name, ()):
                    raise DataError(
                        f"--env.{name}: no answer to question {uid!r} in "
                        f"{sources[name] or 'any dataset'}"
                    )
                if needed:
                    return read_turn_texts(answers[name][uid], "choices.0.turns", len(turns))
                return ()

            turns = read_turn_texts(row, "turns", 1, 2)
            category = row.optional_text("category")
            reference = read_answers("reference_dataset", needed=category in WITH_REFERENCES)
            baseline = read_answers("baseline_dataset", needed="baseline_dataset" in answers)
            return MTBenchTask(uid, turns[0], category, turns, reference, baseline)

        return TaskList.from_rows(index_by_uid(rows), build)

    def conversations(self, task: MTBenchTask) -> list[Conversation]:
        """Return the first turn, after the system prompt."""
        return [[*self.system_messages, Message(role="user", content=task.question)]]

    async def follow_up(self, task: MTBenchTask, completions: Sequence[Completion]) -> str | None:
        """Return the second turn."""
        if len(completions) < len(task.turns):
            return task.turns[len(completions)]
        return None

    async def judge(
        self, task: MTBenchTask, completions: Sequence[Completion]
    ) -> Judgment[MTBenchDetail]:
        """Judge all turns at once."""
        count, turn_count = len(completions), len(task.turns)
        if self.verb == "evaluate" and count != turn_count:
            # The answers are from a file, or from a stopped run.
            raise DataError(f"question {task.uid!r}: {count} of {turn_count} turns have an answer")
        turn_texts = zip_longest(task.turns, task.reference, task.baseline)
        turns = [
            JudgeTask(question, (completion.answer,), reference, baseline=baseline)
            for completion, (question, reference, baseline) in zip(
                completions, turn_texts, strict=False
            )
        ]
        return await self.answer_judge.judge(TurnTask.from_turns(turns))

    def reward(self, judgment: Judgment[MTBenchDetail]) -> float:
        """Return the mean over the turns of (rating − 1) / 9.

        For comparisons, the mean of 1 for a win, 0.5 for a tie and 0 for a loss.
        """
        score = super().reward(judgment)
        if self.config.baseline_dataset is None:
            return RATINGS.unit(score)
        return score

    def record_metrics(
        self, metrics: MetricAggregator, task: MTBenchTask, sample: Sample[MTBenchDetail]
    ) -> None:
        """Record means over all turns, by turn and by category; outcomes of comparisons, too."""
        name, detail = self.spec.headline[0], sample.detail
        scores = [self.spec.invalid_score] * len(task.turns)
        if detail:
            scores = [*detail.parts.values()]
        ends = None if task.baseline else (RATINGS.low, RATINGS.high)
        suffixes = [""]
        if task.category is not None:
            category = metrics.names(task.category)
            suffixes.append(f"_category_{category}")
        for suffix in suffixes:
            metrics.ratio(f"{name}{suffix}", sum(scores), len(scores), interval=True, ends=ends)
            for turn, score in enumerate(scores, start=1):
                metrics.mean(f"turn_{turn}_{name}{suffix}", score, interval=True, ends=ends)
        if not task.baseline:
            return
        for points, outcome in OUTCOMES.items():
            metrics.ratio(f"{outcome}_rate", scores.count(points), len(scores), interval=True)
        if detail:
            for first, second in filter(None, (detail.turn_1, detail.turn_2)):
                metrics.rate("position_agreement_rate", first.points == second.points)

    def texts(self, task: MTBenchTask) -> Mapping[str, str]:
        """Return the reference and baseline answers by turn."""
        kinds = {"reference": task.reference, "baseline": task.baseline}
        texts_by_turn = {}
        for kind, texts in kinds.items():
            for turn, text in enumerate(texts, start=1):
                texts_by_turn[f"{kind}_{turn}"] = text
        return texts_by_turn

    @classmethod
    def spec_for(cls, config: MTBenchConfig) -> EnvSpec:
        """Show the mean rating, or the win rate of comparisons; each also by turn."""
        is_rated = config.baseline_dataset is None
        headline = cls.spec.headline if is_rated else ("win_rate_adjusted", "win rate")
        turns = {f"turn_1_{headline[0]}": "first", f"turn_2_{headline[0]}": "second"}
        rates = {
            "win_rate": "won",
            "tie_rate": "tied",
            "loss_rate": "lost",
            "position_agreement_rate": "orders agree",
        }
        documented = [
            ("no such turn has a score", *(turn + suffix for turn in turns))
            for suffix in ("", _CATEGORY)
        ]
        return replace(
            cls.spec,
            headline=headline,
            invalid_score=float(RATINGS.low) if is_rated else 0.0,
            outcomes=(Outcome("by turn", turns, unit="number"), Outcome("turns", rates)),
            documented=documented,
        )

    def has_follow_ups(self, task: MTBenchTask) -> bool:
        """Return whether the question has a second turn."""
        return len(task.turns) > 1


if __name__ == "__main__":
    MTBenchEnv.cli()
