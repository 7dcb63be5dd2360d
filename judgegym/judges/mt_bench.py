"""MT-Bench's judge: the turns of a conversation rated from 1 to 10, or compared with a baseline's in both orders.

The prompts are data: a file in the format of MT-Bench's `judge_prompts.jsonl`, whose eight names, markers, placeholders
and verdicts (`[[5]]`; `[[A]]`, `[[B]]`, `[[C]]`) are the published ones. Turn 1 is judged by itself, turn 2 in its
conversation. A placeholder stands between two markers, so that its text has a section of its own. If a text could be
mistaken for a marker, all markers carry a tag; otherwise the prompt is the file's, byte for byte.

Guarantees: all prompts of a row are asked at once. A judgment has a score only if each of its turns has all its
verdicts. A text under judgment is never read as a template.

Source: Zheng et al., Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena (2023); lm-sys/FastChat, llm_judge.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from judgegym.judges import prompts
from judgegym.judges.arena import OUTCOMES, GameOrder
from judgegym.judges.config.judge import ReaskSettings
from judgegym.judges.core.calls import ask, ask_again, failed_judgment
from judgegym.judges.core.delimiters import Lookalikes, Prompt, delimit, without_tokens
from judgegym.judges.core.judgment import JudgeCall, Judgment, Scale, ScoreParts, Status
from judgegym.judges.core.prompt_format import PromptFormat, ShownPrompt
from judgegym.judges.parsing.json_objects import decoded
from judgegym.judges.parsing.labels import choice_form, choice_letter
from judgegym.judges.parsing.scores import RATING_FORM, SCALE, bracketed_rating
from judgegym.judges.parsing.verdict_parser import VerdictParser
from judgegym.llm.at_once import all_results
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
_TITLE = r"\[(?:User )?Question|(?:\[|<\|)The (?:Start|End) of .+?|### (?:User|Assistant [AB]|Reference answer)"
_MARKER = re.compile(rf"^({_TITLE})(\|>|\]|:)$", re.MULTILINE)
_SECTION = re.compile(rf"{_MARKER.pattern}\n\{{(\w+)\}}(?=\n+{_MARKER.pattern})", re.MULTILINE)
"""A placeholder between two markers."""
_LIKE = Lookalikes("<|", "[question", "[the start of", "[the end of", "#user", "#assistant", "#reference answer")


@dataclass(frozen=True, slots=True)
class MTBenchCase:
    """The turns of a conversation.

    Attributes:
        questions: what the user says in each turn.
        answers: the answers under judgment, without their thinking; at most one for each question.
        baseline: the answers to compare them with; empty where they are rated.
        references: reference answers; empty without any.
    """

    questions: tuple[str, ...]
    answers: tuple[str, ...]
    baseline: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    @property
    def looks(self) -> list[tuple[int, GameOrder | None]]:
        """The prompts of a row: of each turn, from 1, its only one, or one for each order of the answers."""
        orders: Sequence[GameOrder | None] = ("model_is_a", "model_is_b") if self.baseline else (None,)
        return [(turn, order) for turn in range(1, len(self.answers) + 1) for order in orders]

    def texts(self, turn: int, order: GameOrder | None) -> tuple[str, dict[str, str], int]:
        """The name of a prompt, its texts by placeholder, and how many of them all answers of a row share."""
        own, other = ("_b", "_a") if order == "model_is_b" else ("_a", "_b") if order else ("", "")
        name = f"{'pair' if order else 'single'}-{'math-v1' if self.references else 'v2' if order else 'v1'}"
        of_turns = [f"_{number}" for number in range(1, turn + 1)]
        given = {"question": self.questions, f"answer{other}": self.baseline, f"answer{own}": self.answers}
        texts = {f"ref_answer{which}": text for which, text in zip(of_turns, self.references, strict=False)}
        for title, of in given.items():
            texts |= {f"{title}{which if turn > 1 else ''}": text for which, text in zip(of_turns, of, strict=False)}
        return f"{name}{'-multi-turn' if turn > 1 else ''}", texts, len(texts) - turn


Templates = Mapping[str, tuple[str, str]]
"""The system prompt and the user message, with its placeholders, of each prompt."""


def read_templates(text: str) -> Templates:
    """The eight prompts by name: for ratings and comparisons, one and two turns, without and with reference answers.

    Args:
        text: lines of JSON as in MT-Bench's `judge_prompts.jsonl`.

    Raises:
        SettingsError: a prompt is missing, or has other markers, placeholders or verdicts.
    """
    given = {str(fields.get("name")): fields for line in text.splitlines() if (fields := decoded(line)) is not None}
    if not given:
        raise SettingsError(
            "judge_prompts: expected @FILE with lines of JSON, as MT-Bench's judge_prompts.jsonl has them"
        )
    two, templates = ("", ""), dict[str, tuple[str, str]]()
    for case in (MTBenchCase(two, two, baseline, references) for baseline in ((), two) for references in ((), two)):
        for name, texts, _ in (case.texts(*look) for look in case.looks):
            fields = given.get(name, {})
            system, user = str(fields.get("system_prompt", "")), str(fields.get("prompt_template", ""))
            verdict, placed = "[[A]]" if case.baseline else "[[rating]]", [each[2] for each in _SECTION.findall(user)]
            found = fields.get("output_format"), {*placed}, user.count("{")
            if not system or found != (verdict, {*texts}, len(placed)):
                wanted = f"{', '.join(texts)} in braces, each on a line between two of MT-Bench's markers"
                raise SettingsError(f"judge_prompts, {name}: expected {verdict}, a system_prompt, and {wanted}")
            templates[name] = system, user
    return templates


@dataclass(frozen=True, slots=True)
class TurnVerdict:
    """The verdict of one prompt.

    Attributes:
        order: whose answer is shown as Assistant A's; `None` where the answer is rated.
        points: the rating; of a game 1 if the model won, 0.5 for a tie, 0 if it lost; `None` without a verdict.
        text: the judge's text with the verdict; without a verdict, its last text.
        earlier_texts: earlier texts without a verdict, after each of which the judge was asked again.
        reasoning: the reasoning that the endpoint returned apart from `text`.
        error: why there is no verdict.
    """

    order: GameOrder | None
    points: float | None
    text: str
    earlier_texts: tuple[str, ...] = ()
    reasoning: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class MTBenchDetail(ScoreParts):
    """The judgments of the turns.

    Attributes:
        parts: of each turn (`turn_1`, `turn_2`) the rating; of two games 1 if the model won both, 0 if it lost both,
            else 0.5; none if a verdict is missing.
        turn_1: the verdict of the first turn, or those of both games, the one with the model as A first.
        turn_2: those of the second turn; empty without one.
    """

    turn_1: tuple[TurnVerdict, ...] = ()
    turn_2: tuple[TurnVerdict, ...] = ()


_Look = tuple[TurnVerdict, list[JudgeCall[Any]], int]
"""A verdict, its calls, and the suspects in the texts that the judge was shown."""


class MTBenchJudge:
    """Judges conversations: the mean of the ratings of their turns, or of their wins (1), ties (0.5) and losses (0)."""

    def __init__(self, settings: ReaskSettings, client: ChatClient, templates: Templates) -> None:
        """Judge as the settings say through `client`, by the prompts of `read_templates`."""
        self.settings, self.client, self.templates = settings, client, templates

    async def judge(self, case: MTBenchCase) -> Judgment[MTBenchDetail]:
        """Ask for all verdicts of all turns at once. Never raises because of a judge's answer."""
        asked = await all_results(self._look(case, turn, order) for turn, order in case.looks)
        verdicts, calls = [verdict for verdict, *_ in asked], tuple(call for _, calls, _ in asked for call in calls)
        size, suspects = len(asked) // len(case.answers), asked[-1][2]  # the last prompt shows the texts of all turns
        turns = [tuple(verdicts[at : at + size]) for at in range(0, len(asked), size)]
        parts: dict[str, float] = {}
        for number, turn in enumerate(turns, start=1):
            points = [verdict.points for verdict in turn if verdict.points is not None]
            if len(points) == size:  # two games that disagree are a tie
                parts[f"turn_{number}"] = points[0] if len({*points}) == 1 else 0.5
        detail = MTBenchDetail(parts, {}, *turns)
        if len(parts) < len(turns):
            return replace(failed_judgment(calls, detail=detail), suspects=suspects)
        label = ", ".join(OUTCOMES[score] if case.baseline else f"{score:g}" for score in parts.values())
        words = "\n\n".join(verdict.text for verdict in verdicts)
        return Judgment(statistics.fmean(parts.values()), Status.OK, label, words, calls, detail, suspects=suspects)

    async def _look(self, case: MTBenchCase, turn: int, order: GameOrder | None) -> _Look:
        """Ask for one verdict, with a question in the same conversation for each answer without one."""
        title, texts, shared = case.texts(turn, order)
        system, template = self.templates[title]
        shown, markers, suspects = delimit([*texts.values()], _LIKE, shared=shared)
        template = _MARKER.sub(rf"\1 {markers.tag}\2", template) if markers.tag else template
        values = {f"{{{placeholder}}}": text for placeholder, text in zip(texts, shown, strict=True)}
        name, points = _GAMES[order]
        read: VerdictParser[[], Any] = choice_letter.given([*points]) if order else bracketed_rating
        form = self.settings.form(choice_form([*points]) if order else RATING_FORM)
        again = prompts.load("arena_hard_reask").replace("label", "label" if order else "rating")
        calls = await ask_again(
            lambda messages, name: ask(self.client, messages, read, name=name, form=form),
            Prompt.of(system, markers.notice + prompts.fill(template, values), suspects).messages,
            f"turn_{turn}{name}",
            lambda _, call: (without_tokens(call.text), again),
            at_most=self.settings.judge_reask,
        )
        last = next((call for call in reversed(calls) if call.text), calls[-1])
        value: Any = calls[-1].value
        earlier = tuple(call.text for call in calls[: calls.index(last)])
        verdict = TurnVerdict(order, points.get(value, value), last.text, earlier, last.reasoning, calls[-1].error)
        return verdict, calls, suspects


_ANSWER = ("The Start of Assistant's Answer", "The End of Assistant's Answer")
_A, _B = ([f"The {at} of Assistant {letter}'s Conversation with User" for at in ("Start", "End")] for letter in "AB")


def _reply(shown: ShownPrompt) -> str:
    lead = shown.merits[_A[0]] - shown.merits[_B[0]] if _B[0] in shown.merits else None
    verdict = 1 + int(10 * shown.merit) if lead is None else "C" if abs(lead) < 0.04 else "A" if lead > 0 else "B"
    return f"By its words, it covers a part of what was asked.\n\nVerdict: [[{verdict}]]"


def _fields(reply: str) -> Mapping[str, JSON]:
    explanation, _, verdict = reply.removesuffix("]]").rpartition("[[")
    return {"explanation": explanation, **({"rating": int(verdict)} if verdict.isdigit() else {"verdict": verdict})}


TURN_PROMPT = PromptFormat(("Question", *_ANSWER), _ANSWER[:1], _reply, question="Question", fields=_fields)
CONVERSATION_PROMPT = PromptFormat((*_A,), (_A[0], _B[0]), _reply, (*_B,), fields=_fields)
"""The prompts that only this judge has: that of two first turns is a choice between two answers, as another judge's."""
