"""Peer evaluation with self-critique, for scripts and notebooks (RL4F).

Models answer a question, score each other's answers, and revise their scores. Source: the
specification's notebook (Rationale-Based Self-Critique Loops); the results have its names and
types.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import product
from typing import TypedDict

from judgegym.api.results import TextTable
from judgegym.api.session import make_sync, stand_in_settings
from judgegym.judges.config.batches import open_client
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.judges.core.judgment import CritiqueRound
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.peers import DEFAULT_RUBRIC, PeerJudgeSettings, PeerTaskJudge
from judgegym.llm.at_once import gather_results
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import EndpointError, SettingsError
from judgegym.llm.wire import Message

_MODEL_KEYS = (
    "name",
    "model_name",
    "base_url",
    "api_key",
    "api_key_env",
    "temperature",
    "max_tokens",
    "extra_body",
)


class ModelAnswer(TypedDict):
    """A model's answer; `error` is the reason if there is none."""

    model: str
    response: str
    error: str | None


class PeerScore(TypedDict):
    """One model's score of another's answer, 0 to 100.

    The score is `None` if the judge failed; `error` then has the reason.
    """

    evaluating_model: str
    evaluated_model: str
    score: int | None
    reasoning: str
    error: str | None


class CritiqueEntry(TypedDict):
    """One self-critique round of one score.

    After a failed round score and reasoning are `None`.
    """

    evaluating_model: str
    evaluated_model: str
    before_score: int
    before_reasoning: str
    raw_response: str
    after_score: int | None
    after_reasoning: str | None


class RL4FEvaluator:
    r"""Evaluates models on a question: they answer, score each other, and revise their scores.

    Attributes:
        user_query_answers: the answer of each model.
        evaluation_query_answers: the last score of each candidate by each judge.
        critique_history: the entries of each critique round; once a round leaves a score unchanged,
            it has no further entries.

    Example:
        >>> evaluator = RL4FEvaluator("model-a", "model-b", "model-c", offline=True)
        >>> evaluator.evaluate_sync("How much VRAM does 1080p gaming need?", iterations=2)
        >>> len(evaluator.user_query_answers), len(evaluator.evaluation_query_answers)
        (3, 6)
        >>> evaluator.score_table().header
        ('judge \\ candidate', 'model-a', 'model-b', 'model-c')
    """

    def __init__(
        self,
        *models: str | Mapping[str, object],
        include_self: bool = False,
        offline: bool = False,
        **settings: object,
    ) -> None:
        """Set up the models.

        Args:
            models: names of models at the endpoint of the settings; or, for models with their own
                endpoint, mappings with `name`, `model_name`, `base_url`, `api_key_env` and so on.
            include_self: let each model score its own answer, too.
            offline: use the stand-in for all models, without key or network; its scores mean
                nothing.
            settings: judge settings (`judge_base_url`, `judge_temperature`, …) for all models. A
                model with its own `base_url` does not get the keys, headers, prices and limits.

        Raises:
            SettingsError: there are fewer than two models, two have the same name, or a setting is
                unknown or wrong.
        """
        self._models = {_model_name(model): _make_settings(model, settings) for model in models}
        if len(self._models) < max(2, len(models)):
            model_count = len(self._models)
            raise SettingsError(
                f"models: expected two or more with different names, got {model_count}"
            )
        self._include_self = include_self
        self._offline = offline
        self.user_query_answers: list[ModelAnswer] = []
        self.evaluation_query_answers: list[PeerScore] = []
        self.critique_history: list[list[CritiqueEntry]] = []

    async def evaluate(
        self, user_query: str, rubric: str = DEFAULT_RUBRIC, iterations: int = 2
    ) -> None:
        """Let the models answer, score each other, and critique and revise their scores.

        Args:
            user_query: the question to every model.
            rubric: the rubric by which answers are scored.
            iterations: 1 for the first scores, plus the number of critique rounds.

        Raises:
            ValueError: `iterations` is below 1.
            SettingsError: a model's endpoint needs an API key and there is none.
        """
        await BACKGROUND.join(self._evaluate(user_query, rubric, iterations))

    evaluate_sync = make_sync(evaluate)

    def score_table(self) -> TextTable:
        """Return the last scores by judge (rows) and candidate; `–` for a missing score."""
        scores = {
            (entry["evaluating_model"], entry["evaluated_model"]): entry
            for entry in self.evaluation_query_answers
        }

        def cell(judge: str, candidate: str) -> str:
            entry = scores.get((judge, candidate))
            if entry is None or entry["score"] is None:
                return "–"
            return str(entry["score"])

        rows = [
            (judge, *(cell(judge, candidate) for candidate in self._models))
            for judge in self._models
        ]
        return TextTable(("judge \\ candidate", *self._models), rows)

    def format_critique_entry(self, item: CritiqueEntry) -> str:
        """Format one entry of the history, with score and reasoning before and after."""
        raw = item["raw_response"].replace("\n", "\n    ")
        return "\n".join(
            (
                f"Judge: {item['evaluating_model']}  →  Candidate: {item['evaluated_model']}",
                f"  Before:\n    Score: {item['before_score']}\n    Reasoning: "
                f"{item['before_reasoning']}",
                f"  Raw response (critique + revision):\n    {raw}",
                f"  After:\n    Score: {item['after_score']}\n    Reasoning: "
                f"{item['after_reasoning']}",
            )
        )

    async def _evaluate(self, user_query: str, rubric: str, iterations: int) -> None:
        if iterations < 1:
            raise ValueError(f"iterations is {iterations}; expected 1 or more")
        async with AsyncExitStack() as stack:
            clients = await self._open(stack)
            answers = await gather_results(
                _ask_model(name, client, user_query, self._models[name])
                for name, client in clients.items()
            )
            usable_answers = [answer for answer in answers if answer["error"] is None]
            pairs = list(product(clients, usable_answers))
            if not self._include_self:
                pairs = [(judge, answer) for judge, answer in pairs if judge != answer["model"]]
            update = {"judge_critique_rounds": iterations - 1}
            judgments = await gather_results(
                PeerTaskJudge(self._models[judge].model_copy(update=update), clients[judge]).judge(
                    JudgeTask(user_query, (answer["response"],), rubric=rubric)
                )
                for judge, answer in pairs
            )
        self.user_query_answers = answers
        self.evaluation_query_answers, self.critique_history = [], []
        for (judge, answer), judgment in zip(pairs, judgments, strict=True):
            failed, candidate = judgment.score is None, answer["model"]
            self.evaluation_query_answers.append(
                PeerScore(
                    evaluating_model=judge,
                    evaluated_model=candidate,
                    score=None if judgment.score is None else int(judgment.score),
                    reasoning="" if failed else judgment.explanation,
                    error=judgment.explanation if failed else None,
                )
            )
            for critique_round in judgment.critique.rounds if judgment.critique is not None else ():
                while len(self.critique_history) < critique_round.round:
                    self.critique_history.append([])
                entry = _make_entry(judge, candidate, critique_round)
                self.critique_history[critique_round.round - 1].append(entry)

    async def _open(self, stack: AsyncExitStack) -> dict[str, ChatClient]:
        update: dict[str, object] = {}
        if self._offline:
            shared = await stand_in_settings(stack, next(iter(self._models.values())))
            update = {
                "judge_base_url": shared.judge_base_url,
                "judge_api_key": None,
                "judge_api": "openai",
            }
        return {
            name: await open_client(stack, model_settings.model_copy(update=update))
            for name, model_settings in self._models.items()
        }


def _model_name(model: str | Mapping[str, object]) -> str:
    if isinstance(model, str):
        return model
    return str(model.get("name") or model.get("model_name") or "")


def _make_settings(
    model: str | Mapping[str, object], shared: Mapping[str, object]
) -> PeerJudgeSettings:
    keywords = {} if isinstance(model, str) else model
    unknown = next((key for key in keywords if key not in _MODEL_KEYS), None)
    if unknown is not None:
        model_key_list = ", ".join(_MODEL_KEYS)
        raise SettingsError(f"models: {unknown!r} is unknown; expected {model_key_list}")
    overrides = {
        f"judge_{key}": value
        for key, value in keywords.items()
        if key not in ("name", "model_name")
    }
    merged = settings_from_keywords(PeerJudgeSettings, shared).fill_in(
        overrides, PeerJudgeSettings.model_fields
    )
    name = keywords.get("model_name", _model_name(model))
    return settings_from_keywords(PeerJudgeSettings, {**merged, "judge_model_name": name})


async def _ask_model(
    name: str, client: ChatClient, user_query: str, settings: PeerJudgeSettings
) -> ModelAnswer:
    try:
        answer = await client.chat(
            [Message(role="user", content=user_query)], keep=lambda choice: False
        )
    except EndpointError as error:
        return ModelAnswer(model=name, response="", error=f"the model at {error}")
    response = settings.hide_thinking(answer.first.text).text
    return ModelAnswer(
        model=name, response=response, error=None if response.strip() else "the answer is empty"
    )


def _make_entry(judge: str, candidate: str, critique_round: CritiqueRound) -> CritiqueEntry:
    failed = critique_round.status == "failed"
    return CritiqueEntry(
        evaluating_model=judge,
        evaluated_model=candidate,
        before_score=int(critique_round.before),
        before_reasoning=critique_round.before_reasoning,
        raw_response=critique_round.raw,
        after_score=None if failed else int(critique_round.after),
        after_reasoning=None if failed else critique_round.after_reasoning,
    )
