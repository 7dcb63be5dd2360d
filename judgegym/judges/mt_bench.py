"""MT-Bench judge: rates the turns of a conversation, or compares them with a baseline.

Ratings are from 1 to 10; comparisons are made in both orders. The prompts are data: a file in the
format of MT-Bench's `judge_prompts.jsonl`, whose eight names, markers, placeholders and verdicts
(`[[5]]`; `[[A]]`, `[[B]]`, `[[C]]`) are the published ones. Turn 1 is judged by itself, turn 2 in
its conversation. A placeholder stands between two markers, so that its text has a section of its
own. If a text could be mistaken for a marker, all markers carry a tag; otherwise the prompt is the
file's, byte for byte.

Guarantees: all prompts of a row are sent at once. A judgment has a score only if each of its turns
has all its verdicts. A text under judgment is never read as a template.

Source: Zheng et al., Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena (2023);
lm-sys/FastChat, llm_judge.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, NamedTuple

from judgegym.judges import prompts
from judgegym.judges.arena import OUTCOMES, GameOrder
from judgegym.judges.config.judge import ReaskSettings
from judgegym.judges.core.calls import failed_judgment
from judgegym.judges.core.delimiters import Lookalikes, break_tokens
from judgegym.judges.core.judgment import Judgment, Scale, ScoreParts, Status
from judgegym.judges.core.message_template import MessageTemplate
from judgegym.judges.core.model_judge import Answers, ModelJudge, Question
from judgegym.judges.core.prompt_format import PromptFormat, StandInPrompt
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parsing.json_objects import decode_object
from judgegym.judges.parsing.labels import choice_form, choice_letter
from judgegym.judges.parsing.scores import RATING_FORM, SCALE, bracketed_rating
from judgegym.judges.parsing.verdict_parser import VerdictParser
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

RATINGS = Scale(*SCALE)
_GAMES: Mapping[GameOrder | None, tuple[str, Mapping[str, float]]] = {
    None: ("", {}),
    "model_is_a": ("_game_1", {"A": 1.0, "B": 0.0, "C": 0.5}),
    "model_is_b": ("_game_2", {"A": 0.0, "B": 1.0, "C": 0.5}),
}
"""How the call of a game is named, and what each letter is worth for the model."""
_ORDERS: Sequence[GameOrder] = ("model_is_a", "model_is_b")
_TITLE = (
    r"\[(?:User )?Question|(?:\[|<\|)The (?:Start|End) of .+?|### (?:User|Assistant [AB]|Reference "
    r"answer)"
)
_MARKER = re.compile(rf"^({_TITLE})(\|>|\]|:)$", re.MULTILINE)
_SECTION = re.compile(rf"{_MARKER.pattern}\n\{{(\w+)\}}(?=\n+{_MARKER.pattern})", re.MULTILINE)
"""A placeholder between two markers."""
_LOOKALIKES = Lookalikes(
    *("<|", "[question", "[the start of", "[the end of"),
    *("#user", "#assistant", "#reference answer"),
)


@dataclass(frozen=True, slots=True)
class TurnTask(JudgeTask):
    """Last turn of a conversation, as a task with the turns before it.

    Attributes:
        earlier: the earlier turns, each with its prompt, response, reference and baseline.
    """

    earlier: tuple[JudgeTask, ...] = ()

    @classmethod
    def from_turns(cls, turns: Sequence[JudgeTask]) -> TurnTask:
        """Return the task of a conversation of at least one turn."""
        *earlier, last = turns
        return cls(
            last.prompt,
            last.responses,
            last.reference,
            baseline=last.baseline,
            earlier=tuple(earlier),
        )


class JudgeView(NamedTuple):
    """Content of one prompt: the turns up to the judged one, with the answers in one order.

    Attributes:
        turns: the turns, of which the last is judged.
        order: whose answer is shown as Assistant A's; `None` for a rating.
    """

    turns: Sequence[JudgeTask]
    order: GameOrder | None

    @property
    def template(self) -> str:
        """The name of the prompt."""
        kind, suffix = "single", "v1"
        if self.order:
            kind, suffix = "pair", "v2"
        with_references = self.turns[-1].reference is not None
        if with_references:
            suffix = "math-v1"
        name = f"{kind}-{suffix}"
        if len(self.turns) > 1:
            name += "-multi-turn"
        return name

    @property
    def texts(self) -> dict[str, str]:
        """Texts by placeholder; the model's answers come last."""
        model_suffix, baseline_suffix = {
            None: ("", ""),
            "model_is_a": ("_a", "_b"),
            "model_is_b": ("_b", "_a"),
        }[self.order]
        columns: Mapping[str, Sequence[str | None]] = {
            "ref_answer": [turn.reference for turn in self.turns],
            "question": [turn.prompt for turn in self.turns],
            f"answer{baseline_suffix}": [turn.baseline for turn in self.turns],
            f"answer{model_suffix}": [turn.response for turn in self.turns],
        }
        texts: dict[str, str] = {}
        for title, column in columns.items():
            for number, text in enumerate(column, start=1):
                if text is not None:
                    texts[f"{title}_{number}"] = text
        if len(self.turns) > 1:
            return texts
        return {
            name if name.startswith("ref_") else name.removesuffix("_1"): text
            for name, text in texts.items()
        }

    @property
    def name(self) -> str:
        """The name of its call."""
        number = len(self.turns)
        return f"turn_{number}{_GAMES[self.order][0]}"


def judge_views(task: JudgeTask) -> list[JudgeView]:
    """Return the prompts of a conversation: for each turn its rating, or both games.

    A plain task has one turn.
    """
    turns = (*task.earlier, task) if isinstance(task, TurnTask) else (task,)
    orders: Sequence[GameOrder | None] = (None,) if task.baseline is None else _ORDERS
    shown = [turns[:number] for number in range(1, len(turns) + 1)]
    return [JudgeView(*view) for view in product(shown, orders)]


Templates = Mapping[str, tuple[str, str]]
"""The system prompt and the user message, with its placeholders, of each prompt."""


def read_templates(text: str) -> Templates:
    """Read the eight prompts by name.

    The prompts are for ratings and comparisons, of one and two turns, without and with reference
    answers.

    Args:
        text: lines of JSON as in MT-Bench's `judge_prompts.jsonl`.

    Raises:
        SettingsError: a prompt is missing, or has other markers, placeholders or verdicts.
    """
    prompts_by_name = {
        str(fields.get("name")): fields
        for line in text.splitlines()
        if (fields := decode_object(line)) is not None
    }
    if not prompts_by_name:
        raise SettingsError(
            "judge_prompts: expected @FILE with lines of JSON, as MT-Bench's judge_prompts.jsonl "
            "has them"
        )
    templates = dict[str, tuple[str, str]]()
    turns = [
        JudgeTask("", ("",), reference, baseline=baseline)
        for baseline, reference in product((None, ""), repeat=2)
    ]
    for look in chain.from_iterable(
        judge_views(TurnTask.from_turns([turn, turn])) for turn in turns
    ):
        fields, texts = prompts_by_name.get(look.template, {}), look.texts
        system, user = str(fields.get("system_prompt", "")), str(fields.get("prompt_template", ""))
        verdict = "[[A]]" if look.order else "[[rating]]"
        placeholder_names = [match[2] for match in _SECTION.findall(user)]
        actual = fields.get("output_format"), {*placeholder_names}, user.count("{")
        if not system or actual != (verdict, {*texts}, len(placeholder_names)):
            names = ", ".join(texts)
            wanted = f"{names} in braces, each on a line between two of MT-Bench's markers"
            raise SettingsError(
                f"judge_prompts, {look.template}: expected {verdict}, a system_prompt, and {wanted}"
            )
        templates[look.template] = system, user
    return templates


@dataclass(frozen=True, slots=True)
class TurnVerdict:
    """The verdict of one prompt.

    Attributes:
        order: whose answer is shown as Assistant A's; `None` for a rating.
        points: the rating; for a game 1 if the model won, 0.5 for a tie, 0 if it lost; `None`
            without a verdict.
        text: the judge's text with the verdict; without a verdict, its last text.
        earlier_texts: earlier texts without a verdict, after each of which the judge was asked
            again.
        reasoning: the reasoning that the endpoint returned apart from `text`.
        error: why there is no verdict.
    """

    order: GameOrder | None
    points: float | None
    text: str
    earlier_texts: tuple[str, ...] = ()
    reasoning: str | None = None
    error: str | None = None

    @classmethod
    def from_answers(cls, order: GameOrder | None, answers: Answers[Any]) -> TurnVerdict:
        """Return the verdict in the replies to a prompt."""
        calls, points = answers.calls, _GAMES[order][1]
        last = next((call for call in reversed(calls) if call.text), calls[-1])
        value: Any = calls[-1].value
        earlier = tuple(call.text for call in calls[: calls.index(last)])
        return cls(
            order, points.get(value, value), last.text, earlier, last.reasoning, calls[-1].error
        )


@dataclass(frozen=True, slots=True)
class MTBenchDetail(ScoreParts):
    """The judgments of the turns.

    Attributes:
        parts: for each turn (`turn_1`, `turn_2`) the rating; for two games 1 if the model won both,
            0 if it lost both, else 0.5; empty if a verdict is missing.
        turn_1: the verdict of the first turn, or of both games, first the game with the model as A.
        turn_2: the same for the second turn; empty without one.
    """

    turn_1: tuple[TurnVerdict, ...] = ()
    turn_2: tuple[TurnVerdict, ...] = ()


class MTBenchJudge(ModelJudge[ReaskSettings, MTBenchDetail, Any]):
    """Judge of conversations, turn by turn.

    The score is the mean of the turns' ratings, or of their wins (1), ties (0.5) and losses (0).
    """

    def __init__(self, settings: ReaskSettings, client: ChatClient, templates: Templates) -> None:
        """Judge as the settings say through `client`, by the prompts of `read_templates`."""
        super().__init__(settings, client)
        self._templates = {
            name: (system, MessageTemplate((_MARKER.sub(r"\1{tag}\2", user),), _LOOKALIKES))
            for name, (system, user) in templates.items()
        }

    def questions(self, task: JudgeTask) -> Sequence[Question[Any]]:
        """Ask for all verdicts of all turns."""
        return [self._make_question(look) for look in judge_views(task)]

    def combine(self, task: JudgeTask, answers: Sequence[Answers[Any]]) -> Judgment[MTBenchDetail]:
        """Return the mean over the turns; two games that disagree are a tie."""
        looks = judge_views(task)
        verdicts = [
            TurnVerdict.from_answers(look.order, replies)
            for look, replies in zip(looks, answers, strict=True)
        ]
        size = 1 if task.baseline is None else len(_ORDERS)
        turns = [tuple(verdicts[at : at + size]) for at in range(0, len(verdicts), size)]
        parts: dict[str, float] = {}
        for number, turn in enumerate(turns, start=1):
            points = [verdict.points for verdict in turn if verdict.points is not None]
            if len(points) == size:
                parts[f"turn_{number}"] = points[0] if len({*points}) == 1 else 0.5
        detail = MTBenchDetail(parts, {}, *turns)
        if len(parts) < len(turns):
            calls = list(chain.from_iterable(replies.calls for replies in answers))
            return failed_judgment(calls, detail=detail)
        if task.baseline is None:
            scores = [f"{score:g}" for score in parts.values()]
        else:
            scores = [OUTCOMES[score] for score in parts.values()]
        label = ", ".join(scores)
        mean, words = (
            statistics.fmean(parts.values()),
            "\n\n".join(verdict.text for verdict in verdicts),
        )
        unit = mean
        if task.baseline is None:
            unit = RATINGS.unit(mean)
        return Judgment(mean, Status.OK, label, words, detail=detail, unit=unit)

    def _make_question(self, look: JudgeView) -> Question[Any]:
        """Ask for one verdict, and in the same conversation again after each reply without one."""
        system, template = self._templates[look.template]
        texts, letters = [*look.texts.items()], [*_GAMES[look.order][1]]
        count = len(texts) - len(look.turns)
        read: VerdictParser[[], Any] = bracketed_rating
        form, verdict_name = RATING_FORM, "rating"
        if look.order:
            read, form, verdict_name = choice_letter.bind(letters), choice_form(letters), "label"
        reminder = prompts.load("arena_hard_reask").replace("label", verdict_name)
        return Question(
            look.name,
            template.fill(dict(texts[:count]), dict(texts[count:]), system=system),
            read,
            form,
            reasks=self.settings.judge_reask,
            repair=lambda _, call: (break_tokens(call.text), reminder),
        )


_ANSWER = ("The Start of Assistant's Answer", "The End of Assistant's Answer")
_A, _B = (
    [f"The {at} of Assistant {letter}'s Conversation with User" for at in ("Start", "End")]
    for letter in "AB"
)


def _draft_reply(shown: StandInPrompt) -> str:
    lead = shown.merits[_A[0]] - shown.merits[_B[0]] if _B[0] in shown.merits else None
    verdict: int | str = "A"
    if lead is None:
        verdict = 1 + int(10 * shown.merit)
    elif abs(lead) < 0.04:
        verdict = "C"
    elif lead <= 0:
        verdict = "B"
    return f"By its words, it covers a part of what was asked.\n\nVerdict: [[{verdict}]]"


def _parse_reply(reply: str) -> Mapping[str, JSON]:
    explanation, _, verdict = reply.removesuffix("]]").rpartition("[[")
    if verdict.isdigit():
        return {"explanation": explanation, "rating": int(verdict)}
    return {"explanation": explanation, "verdict": verdict}


TURN_PROMPT = PromptFormat(
    ("Question", *_ANSWER), _ANSWER[:1], _draft_reply, question="Question", fields=_parse_reply
)
CONVERSATION_PROMPT = PromptFormat(
    (*_A,), (_A[0], _B[0]), _draft_reply, (*_B,), fields=_parse_reply
)
"""Prompts that only this judge has; that of two first turns is like the choice judge's."""
