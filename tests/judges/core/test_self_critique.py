"""Self-critique around every judge: what is asked, what changes, what is kept when a round fails, and when it ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from judgegym.judges.aspects.judge import AspectCase, AspectCaseJudge, AspectPanel
from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS, AspectJudgeSettings
from judgegym.judges.core.judge import with_self_critique
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.peers import PeerCase, PeerCaseJudge
from judgegym.judges.rubrics.judge import RubricCase, RubricCaseJudge
from judgegym.judges.rubrics.prompt import Rubric
from judgegym.llm.cache import JudgmentCache
from tests.peers import REFUSED, scored
from tests.scripted import Json, Reply, ScriptedEndpoint

Connect = Callable[..., Any]
Said = str | Reply


def verdict(yes: int, reason: str = "since") -> str:
    return json.dumps({"reason": reason, "verdict": yes})


@dataclass(frozen=True)
class Kind:
    """A judge, a case for it, and two answers with different verdicts.

    Attributes:
        judge: makes the judge from a client.
        case: the case that it judges.
        first: the answer with the first verdict.
        second: an answer with another verdict.
        scores: the scores of these answers.
        verdicts: the verdicts of these answers, as the history shows them.
        component: the component in the history.
    """

    judge: Callable[[Any], Any]
    case: Any
    first: str
    second: str
    scores: tuple[float, float]
    verdicts: tuple[Any, Any]
    component: str


COHERENCE = SUPPORTED_ASPECTS["coherence"]
KINDS = {
    "peer": Kind(
        PeerCaseJudge,
        PeerCase("Why?", "Because.", "Brevity"),
        scored(90, "Brief."),
        scored(70, "Too brief."),
        (90, 70),
        (90, 70),
        "",
    ),
    "rubric": Kind(
        RubricCaseJudge,
        RubricCase("Say why.", "Because.", Rubric("Is it good?")),
        "[FEEDBACK] Brief. [SCORE] 5",
        "[FEEDBACK] Too brief. [SCORE] 2",
        (5, 2),
        (5, 2),
        "judgment_1",
    ),
    "aspect": Kind(
        lambda client: AspectCaseJudge(client, COHERENCE),
        AspectCase("Because."),
        verdict(1, "Brief."),
        verdict(0, "Too brief."),
        (1, 0),
        ("yes", "no"),
        "coherence",
    ),
    "panel": Kind(
        lambda client: AspectPanel(client, AspectJudgeSettings(aspects=(COHERENCE,))),
        AspectCase("Because."),
        verdict(1, "Brief."),
        verdict(0, "Too brief."),
        (1, 0),
        ("yes", "no"),
        "coherence",
    ),
}
KIND = pytest.mark.parametrize("kind", [pytest.param(kind, id=name) for name, kind in KINDS.items()])


async def run(
    connect: Connect, kind: Kind, said: Sequence[Said], *, rounds: int, **settings: Any
) -> tuple[Judgment[Any], list[Json]]:
    """What a judge says at first and in each round, one after the other; no more is asked than there is."""

    def script(request: Json, number: int) -> Said:
        return said[number - 1]

    async with ScriptedEndpoint(script) as endpoint:
        judge = with_self_critique(kind.judge(connect(endpoint, **settings)), rounds)
        judgment = await judge.judge(kind.case)
    assert len(endpoint.requests) == len(said)
    return judgment, endpoint.bodies


@KIND
async def test_a_verdict_is_revised(connect: Connect, kind: Kind) -> None:
    critique = "I was too lenient."
    judgment, bodies = await run(connect, kind, [kind.first, f"{critique}\n{kind.second}"], rounds=1)
    assert (judgment.score, judgment.status) == (kind.scores[1], Status.OK)
    assert "Too brief." in judgment.explanation
    assert judgment.critique is not None
    assert judgment.critique.before_score == kind.scores[0]
    (held,) = judgment.critique.rounds
    assert (held.round, held.component, held.status, held.error) == (1, kind.component, "revised", None)
    assert (held.before, held.after) == kind.verdicts
    assert (held.before_reasoning, held.after_reasoning) == ("Brief.", "Too brief.")
    assert (held.critique, held.raw) == (critique, f"{critique}\n{kind.second}")
    assert len(judgment.calls) == 2
    assert judgment.calls[1].name == f"critique_1{'_' if kind.component else ''}{kind.component}"
    asked = bodies[1]["messages"][-1]["content"]
    assert "Because." in asked
    assert "Brief." in asked
    assert "too harsh or " in asked
    assert "lenient" in asked


@KIND
async def test_a_verdict_that_stays_ends_it(connect: Connect, kind: Kind) -> None:
    judgment, _ = await run(connect, kind, [kind.first, f"I stand by it.\n{kind.first}"], rounds=5)
    assert judgment.score == kind.scores[0]
    assert judgment.critique is not None
    assert [each.status for each in judgment.critique.rounds] == ["unchanged"]


@KIND
async def test_it_goes_on_as_long_as_it_changes(connect: Connect, kind: Kind) -> None:
    judgment, bodies = await run(
        connect, kind, [kind.first, kind.second, kind.first, kind.second, kind.second], rounds=5
    )
    assert judgment.score == kind.scores[1]
    assert judgment.critique is not None
    assert [each.status for each in judgment.critique.rounds] == ["revised", "revised", "revised", "unchanged"]
    assert [each.round for each in judgment.critique.rounds] == [1, 2, 3, 4]
    assert judgment.critique.before_score == kind.scores[0]
    shown = [body["messages"][-1]["content"] for body in bodies[1:]]
    assert ["Too brief." in content for content in shown] == [False, True, False, True]


@KIND
@pytest.mark.parametrize(("failure", "words"), [(REFUSED, "not today"), ("No.", "no verdict could be read")])
async def test_a_failed_round_keeps_the_verdict_and_is_tried_again(
    connect: Connect, kind: Kind, failure: Said, words: str
) -> None:
    judgment, _ = await run(connect, kind, [kind.first, failure, kind.second], rounds=2)
    assert judgment.score == kind.scores[1]
    assert judgment.critique is not None
    failed, revised = judgment.critique.rounds
    assert (failed.status, revised.status) == ("failed", "revised")
    assert (failed.before, failed.after) == (kind.verdicts[0], kind.verdicts[0])
    assert words in str(failed.error)
    alone, _ = await run(connect, kind, [kind.first, failure], rounds=1)
    assert (alone.score, alone.status) == (kind.scores[0], Status.OK)


@KIND
def test_no_rounds_are_the_judge_itself(connect: Connect, kind: Kind) -> None:
    judge = kind.judge(connect("http://127.0.0.1:1/v1"))
    assert with_self_critique(judge, 0) is judge


@KIND
async def test_without_a_score_there_is_nothing_to_reconsider(connect: Connect, kind: Kind) -> None:
    async with ScriptedEndpoint("No.") as endpoint:
        judgment = await with_self_critique(kind.judge(connect(endpoint)), 3).judge(kind.case)
        bare = await kind.judge(connect(endpoint)).judge(kind.case)
    assert (judgment.score, judgment.status, judgment.critique) == (None, Status.UNPARSABLE, None)
    assert len(endpoint.requests) == 2 * len(bare.calls)


@KIND
async def test_what_is_kept_answers_again(connect: Connect, kind: Kind, tmp_path: Any) -> None:
    """Judgment and critique come from the cache; a failed round is none that is kept."""
    cache = JudgmentCache(tmp_path / "cache.sqlite")
    said: list[Said] = [kind.first, "No.", kind.second]
    async with ScriptedEndpoint(lambda request, number: said[number - 1]) as endpoint:
        judge = with_self_critique(kind.judge(connect(endpoint, cache=cache)), 1)
        judgments = [await judge.judge(kind.case) for _ in range(3)]
    cache.close()
    assert [judgment.score for judgment in judgments] == [kind.scores[0], kind.scores[1], kind.scores[1]]
    assert [[call.run.cached for call in judgment.calls] for judgment in judgments] == [
        [False, False],
        [True, False],
        [True, True],
    ]


def test_rounds_cannot_be_negative() -> None:
    with pytest.raises(ValueError, match="rounds is -1"):
        with_self_critique(PeerCaseJudge(None), -1)  # type: ignore[arg-type]  # never called


async def test_a_critique_that_quotes_the_old_score(connect: Connect) -> None:
    quoting = f'I said {scored(90)}; "Score: 90" and {{90}} were too kind.\n{scored(70)}'
    judgment, _ = await run(connect, KINDS["peer"], [scored(90), quoting], rounds=1)
    assert judgment.score == 70
