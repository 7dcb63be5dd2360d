"""A judge that asks nobody: the scorer of a run builds its prompts, and a client counts them instead of sending them.

Guarantee: the prompts are those that the run sends, since the run's own judges build them. Where a later prompt shows
what the judge has said before (self-critique), that is a few words here.

What a judge might answer, so that its next questions are those of a judge that answers.

Every judge reads its verdict from an object, in whatever form it asks for it; only those of the listwise judge and of
the checklist judge have ids, which stand in the prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from judgegym.datasets.rows.task import ScoreTask
from judgegym.judges.checklists.prompt import CHECKLIST_PROMPT
from judgegym.judges.config.endpoint import NO_ENDPOINT, STAND_IN_IDENTITY
from judgegym.judges.core.prompt_format import PromptFormat, ShownPrompt
from judgegym.judges.core.tasks import JudgeTask, TaskJudge, judge_responses
from judgegym.judges.listwise.prompt import LISTWISE_PROMPT
from judgegym.judges.parsing.verdict_parser import without_form
from judgegym.judges.parts.steps import part_of_step
from judgegym.judges.scorers.registry import JudgeKind, ScorerSettings, open_judge, part_settings
from judgegym.llm import wire
from judgegym.llm.client import ChatClient
from judgegym.llm.cost.images import tokens_of_images
from judgegym.llm.ledger import current_component
from judgegym.llm.types import ChatResponse, ChatSettings, Endpoint
from judgegym.llm.usage import count_once
from judgegym.llm.wire import JSON, Choice, Message
from judgegym.offline.answers import read_prompt
from judgegym.offline.request import RequestMessage

_WORDS = "-"


def verdict_of(settings: ScorerSettings, messages: Sequence[Message], *, other: bool) -> str:
    """A verdict in the judge's terms.

    Args:
        settings: the judge.
        messages: what it is asked.
        other: give another verdict than without this.
    """
    if settings.judge == "listwise":
        return _reply(messages, LISTWISE_PROMPT)
    if settings.judge == "checklist":
        return _reply(messages, CHECKLIST_PROMPT)
    kind: JudgeKind = settings.judge
    if kind == "tournament":
        kind = settings.tournament_game
    scale = settings.scale
    fields: dict[JudgeKind, tuple[JSON, JSON]] = {
        "rubric": ({"feedback": _WORDS, "score": scale.high}, {"feedback": _WORDS, "score": scale.low}),
        "aspect": ({"reason": _WORDS, "verdict": 1}, {"reason": _WORDS, "verdict": 0}),
        "peer": ({"reasoning": _WORDS, "score": 60}, {"reasoning": _WORDS, "score": 40}),
        "arena_hard": ({"explanation": _WORDS, "verdict": "A>B"}, {"explanation": _WORDS, "verdict": "B>A"}),
        "choice": ({"explanation": _WORDS, "verdict": "A"}, {"explanation": _WORDS, "verdict": "B"}),
    }
    return wire.dumps(fields[kind][other]).decode()


def _reply(messages: Sequence[Message], form: PromptFormat) -> str:
    """What the stand-in says to a prompt of this format, with other merits."""
    asked = [RequestMessage(message["role"], without_form(message["content"])) for message in messages]
    reading = read_prompt(asked, (form,))
    assert reading is not None  # the judge's own prompt
    titles = form.judged_of(reading.sections)
    merits = {title: place / len(titles) for place, title in enumerate(titles)}
    return form.reply(ShownPrompt(reading.instructions, reading.sections, merits, Random(0)))


_RESPONSE = "\u203b"
"""Stands for a response in prompts, where it is counted; a text of the data that has it makes the most too many."""


@dataclass(frozen=True, slots=True)
class AskedInAll:
    """What would be sent.

    Attributes:
        calls: requests.
        prompt_tokens: of all prompts.
        shown_answers: how many answers of the judge the prompts would show it again, of which `prompt_tokens` has a
            few words each.
        shown_responses: how often the prompts would show a response that nobody has given yet; the same.
    """

    calls: int = 0
    prompt_tokens: int = 0
    shown_answers: int = 0
    shown_responses: int = 0


class CountingClient(ChatClient):
    """Counts what a judge asks it, and answers with a verdict.

    Attributes:
        judge: asks it.
        calls_of: the requests of each part, by its name, since the beginning.
        tokens_of: the tokens of their prompts.
    """

    def __init__(self, settings: ScorerSettings, *, disagrees: bool = False) -> None:
        """Count for a judge.

        Args:
            settings: the judge.
            disagrees: votes differ, and each round of self-critique revises the verdict: the most calls. Otherwise all
                votes are equal, and verdicts stay: the fewest.

        Raises:
            SettingsError: the judge's settings are wrong.
        """
        endpoint = Endpoint(NO_ENDPOINT, settings.judge_model_name)
        # As a stand-in's, so that the parts of a reward ask for no key.
        chat = ChatSettings(
            (endpoint,), settings.judge_temperature, settings.judge_max_tokens, identity=STAND_IN_IDENTITY
        )
        super().__init__(chat)
        self._settings, self._disagrees, self._asked = settings, disagrees, AskedInAll()
        self._parts = dict(_parts_of(settings))
        self.calls_of, self.tokens_of = Counter[str](), Counter[str]()
        # Probabilities are asked for in a field of the request, and change nothing of calls and prompts.
        counted: dict[str, object] = {"weighting": "none", "cascade_recheck": 0.0}
        # Of a cascade, the fewest calls are those where the cheap judge always decides; the most, where it never does.
        counted |= {"cascade_threshold": float(disagrees), "cascade_share": float(not disagrees)}
        self.judge: TaskJudge = open_judge(settings.model_copy(update=counted), self)

    def sibling(self, settings: ChatSettings) -> ChatClient:
        """Count for a part, too."""
        return self

    async def asked(self, task: JudgeTask) -> AskedInAll:
        """What would be sent for a checked task."""
        self._asked = AskedInAll()
        if self._settings.asks_endpoint:
            await judge_responses(self.judge, task)
        return self._asked

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        n: int = 1,
        vote: int = 0,
        name: str = "",
        **how: Any,  # nothing of it changes what is asked
    ) -> ChatResponse:
        """Count a call."""
        is_critique = name.startswith("critique_")
        path = current_component().rstrip("/")
        path = path if path in self._parts else part_of_step(path)
        part, settings = path.partition("/")[0], self._parts.get(path, self._settings)
        of_votes = settings.vote_count() if settings.judge == "aspect" else 1
        self._count(messages, part, of_votes * is_critique)
        differs = self._disagrees and vote % 2 == 1 and (is_critique or settings.judge == "aspect")
        return ChatResponse((Choice(verdict_of(settings, messages, other=differs)),) * n)

    async def call_beside(
        self,
        send: object,
        messages: Sequence[Message],
        parameters: object,
        **how: Any,  # nothing of it changes what is asked
    ) -> ChatResponse:
        """Count a call of a reward model."""
        self._count(messages, current_component().partition("/")[0], 0)
        classes = 1 + abs(self._settings.reward_label or 0)
        return ChatResponse((Choice(wire.dumps([0.0] * classes).decode()),))

    def _count(self, messages: Sequence[Message], part: str, shown_answers: int) -> None:
        """Count a request of a part, whose prompt shows so many answers again."""
        tokens = sum(count_once(message["content"]) for message in messages)
        tokens += tokens_of_images(messages, self._settings.endpoint.effective_api, self._settings.judge_model_name)
        self.calls_of[part] += 1
        self.tokens_of[part] += tokens
        before = self._asked
        self._asked = AskedInAll(
            before.calls + 1,
            before.prompt_tokens + tokens,
            before.shown_answers + shown_answers,
            before.shown_responses + sum(message["content"].count(_RESPONSE) for message in messages),
        )


def _parts_of(settings: ScorerSettings, place: str = "") -> Iterator[tuple[str, ScorerSettings]]:
    """The parts of a judge that is made of judges, and theirs, by the component of their calls."""
    for part in part_settings(settings):
        yield place + part.name, part.settings
        yield from _parts_of(part.settings, f"{place}{part.name}/")


def with_responses(task: ScoreTask) -> JudgeTask:
    """What a task's judge is asked about; in place of responses that a policy will give, different short ones."""
    if task.to_sample is None:
        return task.judge_task
    return task.judge_task.with_responses([f"{_RESPONSE}{number}" for number in range(task.to_sample.count)])
