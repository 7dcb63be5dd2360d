"""The peer judge: one model scores another's answer from 0 to 100, by a rubric in text.

Source: the specification's peer evaluation with self-critique; prompts and default rubric keep its wording.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from judges import prompts
from judges.core.calls import ask
from judges.core.critique import CritiqueRequest, Revision
from judges.core.delimiters import delimiters_for
from judges.core.judgment import JudgeCall, Judgment, Status
from judges.core.scale import Scale
from judges.llm.client import ChatClient
from judges.llm.wire import Choice, Message
from judges.parsing.json_objects import prose_before
from judges.parsing.thinking import after_thinking
from judges.parsing.verdicts import ScoreObject, score_object

SCALE = Scale(0, 100)
DEFAULT_RUBRIC = prompts.load("peer_rubric")
"""The specification's rubric of six parts, 100 points in all."""

_WEIGHTIEST = "Correctness & Accuracy"
_EMPHASIS = f" {_WEIGHTIEST} has the highest impact on the overall score."
_LOOKALIKES = ("query:", "candidate response", "rubric:", "your previous evaluation", "instructions:")


@dataclass(frozen=True, slots=True)
class PeerDetail:
    """What a peer said: its reason, and the whole text that the score stands in."""

    reasoning: str | None
    text: str


class PeerJudge:
    """Scores answers."""

    def __init__(self, client: ChatClient) -> None:
        """Judge through `client`."""
        self.client = client

    async def judge(self, *, query: str, response: str, rubric: str = DEFAULT_RUBRIC) -> Judgment[PeerDetail]:
        """Score one answer.

        Returns:
            A whole number from 0 to 100; or no score and the reason. Never raises on what a judge answers.
        """
        call = await ask(self.client, peer_messages(query, response, rubric), _score, name="score")
        found = score_object(call.text) if call.value is not None else None
        if found is None:
            status = Status.JUDGE_FAILED if call.failed else Status.UNPARSABLE
            detail = PeerDetail(None, call.text)
            return Judgment(None, status, explanation=call.error or "", calls=(call,), detail=detail)
        return _judgment(found, call.text, (call,))

    def critique_requests(
        self, judgment: Judgment[PeerDetail], *, query: str, response: str, rubric: str = DEFAULT_RUBRIC
    ) -> list[CritiqueRequest]:
        """The one score, with the specification's request to critique and revise it."""
        assert judgment.score is not None and judgment.detail is not None
        score, reasoning = int(judgment.score), judgment.detail.reasoning or ""
        messages = peer_messages(query, response, rubric, previous=ScoreObject(score, reasoning))
        return [CritiqueRequest("", score, reasoning, messages, _read, _revision)]

    def apply_revisions(
        self,
        judgment: Judgment[PeerDetail],
        revisions: Mapping[str, JudgeCall],
        *,
        query: str,
        response: str,
        rubric: str = DEFAULT_RUBRIC,
    ) -> Judgment[PeerDetail]:
        """The score of the revision in place of the earlier one."""
        text = revisions[""].text
        found = score_object(text)
        assert found is not None  # only texts with a score get here
        return _judgment(found, text, judgment.calls)


def peer_messages(query: str, response: str, rubric: str, *, previous: ScoreObject | None = None) -> list[Message]:
    """What a peer is shown, as one user message.

    Args:
        query: what the candidate was asked.
        response: what it answered.
        rubric: by what the answer is scored.
        previous: the peer's own evaluation, which it is to critique and revise.
    """
    reasoning = "" if previous is None else previous.reasoning or ""
    markers = delimiters_for((query, response, rubric, reasoning), _LOOKALIKES)
    shown = "CANDIDATE RESPONSE (that you evaluated)" if previous is not None else "CANDIDATE RESPONSE"
    sections = {
        "{query}": f"{markers.title('QUERY')}\n{query}",
        "{response}": f"{markers.title(shown)}\n{response}",
        "{rubric}": f"{markers.title('RUBRIC')}\n{rubric}",
        "{evaluation}": markers.title("YOUR PREVIOUS EVALUATION"),
        "{reasoning}": reasoning,
        "{score}": "" if previous is None else str(previous.score),
        "{emphasis}": _EMPHASIS if _WEIGHTIEST in rubric else "",
    }
    template = prompts.load("peer" if previous is None else "peer_critique")
    return [Message(role="user", content=markers.notice + prompts.fill(template, sections))]


def _judgment(found: ScoreObject, text: str, calls: tuple[JudgeCall, ...]) -> Judgment[PeerDetail]:
    detail = PeerDetail(found.reasoning, text)
    return Judgment(float(found.score), Status.OK, str(found.score), found.reasoning or "", calls, detail)


def _score(text: str) -> int | None:
    found = score_object(text)
    return None if found is None else found.score


def _read(choice: Choice) -> int | None:
    return _score(choice.text)


def _revision(call: JudgeCall) -> Revision:
    found = score_object(call.text)
    assert found is not None  # only calls with a score get here
    return Revision(found.score, found.reasoning or "", prose_before(after_thinking(call.text), "score"))
