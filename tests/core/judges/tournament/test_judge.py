"""A tournament over a real endpoint: every answer gets its own score, and what fails costs no more than itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, get_args

import pytest

from judgegym.judges.config import extras
from judgegym.judges.config.extras import MissingExtraError
from judgegym.judges.core.group import GroupJudgment, Look, OrderAgreement
from judgegym.judges.core.judgment import Status
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.tournament.progress import TournamentGroupJudge
from judgegym.judges.tournament.schedule import Schedule, TournamentSettings
from tests.scripted import Meeting, Reply, Script, ScriptedEndpoint
from tests.tournaments import DOWN, by_quality, failing, group, shown, text_of

Connect = Callable[..., Any]


async def play(
    connect: Connect, task: JudgeTask, script: Script | Reply | str = by_quality, **settings: Any
) -> tuple[GroupJudgment, list[tuple[int, int]]]:
    """The judgment of a task, and the qualities of all games that were shown, reasks left out."""
    async with ScriptedEndpoint(script) as endpoint:
        judge = TournamentGroupJudge(TournamentSettings.model_validate(settings), connect(endpoint))
        judgment = await judge.judge(task)
        return judgment, [shown(body) for body in endpoint.bodies if len(body["messages"]) == 2]


def ranks(judgment: GroupJudgment) -> list[int]:
    scores = [member.score for member in judgment.members]
    assert all(score is not None and 0.0 < score < 1.0 for score in scores)
    return [sorted(scores).index(score) + 1 for score in scores]  # type: ignore[type-var]


@pytest.mark.parametrize("game", ["arena_hard", "choice"])
@pytest.mark.parametrize(
    ("schedule", "orders", "games"),
    [
        ("all", "both", 30),
        ("all", "balanced", 15),
        ("swiss", "both", 18),
        ("swiss", "balanced", 18),
        ("balanced", "both", 18),
        ("balanced", "balanced", 15),
        ("circular", "both", 12),
        ("circular", "balanced", 6),
    ],
)
async def test_scores_follow_the_judge_and_belong_to_their_answers(
    connect: Connect, schedule: Schedule, orders: str, games: int, game: str
) -> None:
    def letter(request: dict[str, Any], number: int) -> str:
        return by_quality(request, number)[:3] + "]]"

    judgment, played = await play(
        connect,
        group(3, 1, 6, 4, 2, 5),
        by_quality if game == "arena_hard" else letter,
        schedule=schedule,
        game_orders=orders,
        tournament_game=game,
    )
    assert len(played) == games == len(set(played))
    if schedule != "circular":
        assert ranks(judgment)[2] == 6 and ranks(judgment)[1] == 1
    if schedule == "all":
        assert ranks(judgment) == [3, 1, 6, 4, 2, 5]
    if orders == "both":
        assert judgment.orders == OrderAgreement(games // 2, games // 2)
    assert [len(member.calls) for member in judgment.members] == [games, 0, 0, 0, 0, 0]
    names = [call.name for call in judgment.members[0].calls]
    assert names == sorted(set(names)) and len(names) == games


async def test_all_independent_games_are_played_at_once(connect: Connect) -> None:
    meeting = Meeting(12)

    async def script(request: dict[str, Any], number: int) -> str:
        await meeting.wait()
        return by_quality(request, number)

    judgment, _ = await play(connect, group(3, 1, 4, 2), script)
    assert ranks(judgment) == [3, 1, 4, 2]


async def test_details_say_who_won_against_whom_in_which_order(connect: Connect) -> None:
    judgment, _ = await play(connect, group(3, 1, 2))
    best, worst, middle = judgment.members
    assert best.label == "4 won, 0 tied, 0 lost"
    assert best.explanation.splitlines()[1:] == [
        "game_1_2, shown first: won against answer 2",
        "game_1_3, shown first: won against answer 3",
        "game_2_1, shown second: won against answer 2",
        "game_3_1, shown second: won against answer 3",
    ]
    assert "game_2_3, shown first: lost to answer 3" in worst.explanation
    assert middle.label == "2 won, 0 tied, 2 lost" and middle.detail is not None
    assert Counter(middle.detail.looks) == Counter(
        [Look(1, 2, 1.0), Look(2, 2, 1.0), Look(1, 2, 0.0), Look(2, 2, 0.0)]
    )
    assert middle.score == pytest.approx(0.5) and middle.detail.own == pytest.approx(0.0)


async def test_judge_that_prefers_the_first_gives_equal_scores(connect: Connect) -> None:
    judgment, _ = await play(connect, group(3, 1, 4, 2), "[[A>B]]")
    assert [member.score for member in judgment.members] == pytest.approx([0.5] * 4)
    assert judgment.orders == OrderAgreement(0, 6)


async def test_strong_verdict_counts_three_times(connect: Connect) -> None:
    def script(label: str) -> Script:
        return lambda request, number: (
            f"[[A{label}B]]" if shown(request)[0] > shown(request)[1] else f"[[B{label}A]]"
        )

    (weak, _), (strong, _) = [
        await play(connect, group(2, 1), script(label), judge_protocol="arena_hard_v0.1")
        for label in (">", ">>")
    ]
    assert 0.5 < weak.members[0].score < strong.members[0].score  # type: ignore[operator]
    assert "won against answer 2 (counts 3 times)" in strong.members[0].explanation


async def test_anchor_is_a_player_and_the_measure_of_the_others(connect: Connect) -> None:
    judgment, played = await play(connect, group(3, 1, 2, anchor=2))
    above, below, equal = (member.score for member in judgment.members)
    assert equal == 0.5 and above > 0.5 > below  # type: ignore[operator]
    assert len(played) == 6
    assert "won against the anchor" in judgment.members[0].explanation


async def test_single_answer_has_no_score(connect: Connect) -> None:
    judgment, played = await play(connect, group(7))
    assert not played and (await play(connect, group()))[0].members == ()
    assert [member.status for member in judgment.members] == [Status.JUDGE_FAILED]
    assert "no other answer" in judgment.members[0].explanation


@pytest.mark.parametrize("schedule", get_args(Schedule))
async def test_failed_game_costs_a_game_and_no_answer(connect: Connect, schedule: Schedule) -> None:
    lost: list[tuple[int, int]] = []

    def fails(one: int, other: int) -> bool:
        if not lost:
            lost.append((one, other))
        return (one, other) == lost[0]

    judgment, played = await play(
        connect, group(3, 1, 6, 4, 2, 5), failing(fails), schedule=schedule, game_orders="balanced"
    )
    assert None not in [member.score for member in judgment.members]
    assert lost[0] in played
    both = [
        member
        for member, number in zip(judgment.members, (3, 1, 6, 4, 2, 5), strict=True)
        if number in lost[0]
    ]
    assert all("no verdict: the judge at" in member.explanation for member in both)


async def test_answer_that_loses_its_games_plays_others(connect: Connect) -> None:
    """On a circle of five, the answer 9 fails against both of its neighbours."""
    seen: Counter[int] = Counter()

    def fails(one: int, other: int) -> bool:
        if 9 not in (one, other):
            return False
        seen[9] += 1
        return seen[9] <= 2

    judgment, played = await play(
        connect, group(3, 9, 6, 4, 2), failing(fails), schedule="circular", game_orders="balanced"
    )
    assert len(played) == 6
    pairs = [frozenset(each) for each in played if 9 in each]
    assert len(set(pairs)) == 3  # the further game is against another answer
    assert judgment.members[1].label == "1 won, 0 tied, 0 lost"


async def test_game_that_is_played_again_has_a_name_of_its_own(connect: Connect) -> None:
    replies = ["Both.", "Both.", "[[A>B]]", "[[B>A]]"]
    judgment, played = await play(
        connect, group(1, 2), lambda request, number: replies[number - 1], judge_reask=0
    )
    assert len(played) == 4
    assert [call.name for call in judgment.members[0].calls] == [
        "game_1_2",
        "game_1_2_again_1",
        "game_2_1",
        "game_2_1_again_1",
    ]


async def test_answer_that_nobody_can_judge_has_no_score_and_the_others_have(
    connect: Connect,
) -> None:
    judgment, played = await play(
        connect,
        group(3, 9, 6, 4),
        failing(lambda one, other: 9 in (one, other)),
        game_orders="balanced",
    )
    statuses = [member.status for member in judgment.members]
    assert statuses == [Status.OK, Status.JUDGE_FAILED, Status.OK, Status.OK]
    lost = judgment.members[1]
    assert lost.score is None and lost.detail is not None and lost.detail.own is None
    assert "of its games" in lost.explanation
    assert len(played) == 6 + 3
    assert [name for name in (call.name for call in judgment.members[0].calls) if "2" in name]
    assert ranks(GroupJudgment((judgment.members[0], *judgment.members[2:]))) == [1, 3, 2]


async def test_answers_without_a_game_against_the_anchors_side_have_no_score(
    connect: Connect,
) -> None:
    judgment, _ = await play(
        connect,
        group(3, 1, 6, anchor=4),
        failing(lambda one, other: 4 in (one, other), reply="Both are fine."),
    )
    assert [member.status for member in judgment.members] == [Status.UNPARSABLE] * 3
    assert "connect it with the anchor." in judgment.members[0].explanation
    assert judgment.members[0].label is None


@pytest.mark.parametrize(
    ("reply", "status", "games"),
    [(DOWN, Status.JUDGE_FAILED, 6), ("Both are fine.", Status.UNPARSABLE, 6 + 2 * 2)],
)
async def test_judge_that_always_fails_scores_nobody_and_is_not_asked_for_ever(
    connect: Connect, reply: Reply | str, status: Status, games: int
) -> None:
    judgment, played = await play(connect, group(3, 1, 6), reply, judge_reask=0)
    assert [(member.status, member.score) for member in judgment.members] == [(status, None)] * 3
    assert (
        len(played) == games
    )  # one more attempt to connect them, unless the endpoint refuses all calls
    assert len(judgment.members[0].calls) == games


async def test_swiss_plays_no_round_upon_results_that_are_not_there(connect: Connect) -> None:
    judgment, played = await play(
        connect, group(3, 1, 6, 4, 2, 5), "Both.", schedule="swiss", judge_reask=0
    )
    assert [member.status for member in judgment.members] == [Status.UNPARSABLE] * 6
    assert len(played) == 6 + 2 * 5  # the first round, and one attempt to connect them


async def test_games_begin_while_answers_arrive_and_a_group_may_stay_short(
    connect: Connect,
) -> None:
    async with ScriptedEndpoint(by_quality) as endpoint:
        in_progress = TournamentGroupJudge(TournamentSettings(), connect(endpoint)).start(
            JudgeTask("How good?", ()), 8
        )
        in_progress.add(text_of(3))
        await asyncio.sleep(0.05)
        assert not endpoint.requests
        in_progress.add(text_of(1))
        await endpoint.arrived(2)
        in_progress.add(text_of(3))
        in_progress.add(text_of(2))
        await endpoint.arrived(6)
        judgment = await in_progress.close()
    assert len(endpoint.requests) == 6
    assert len(judgment.members) == 4 and judgment.members[0].score == judgment.members[2].score
    assert ranks(judgment)[1] == 1


async def test_one_answer_more_than_planned_is_refused(connect: Connect) -> None:
    async with ScriptedEndpoint(by_quality) as endpoint:
        in_progress = TournamentGroupJudge(TournamentSettings(), connect(endpoint)).start(
            group(), 1
        )
        in_progress.add(text_of(1))
        with pytest.raises(ValueError, match="a group of 1 answers"):
            in_progress.add(text_of(1))
        in_progress.cancel()


@pytest.mark.parametrize("game", ["arena_hard", "choice"])
async def test_every_game_shows_criteria_reference_and_context(connect: Connect, game: str) -> None:
    task = JudgeTask(
        "How good?", (text_of(1), text_of(2)), "It is 9.", "The shortest wins.", context="Known: 9."
    )
    async with ScriptedEndpoint({"choice": "[[A]]", "arena_hard": "[[A>B]]"}[game]) as endpoint:
        judge = TournamentGroupJudge(
            TournamentSettings.model_validate({"tournament_game": game}), connect(endpoint)
        )
        await judge.judge(task)
    assert len(endpoint.bodies) == 2
    for body in endpoint.bodies:
        assert all(
            text in body["messages"][1]["content"]
            for text in (task.reference, task.rubric, task.context)
        )


@pytest.mark.parametrize("layout", ["published", "shared_first"])
async def test_first_answer_of_a_game_is_assistant_a_in_both_layouts(
    connect: Connect, layout: str
) -> None:
    judgment, _ = await play(
        connect, group(2, 1), "[[A>B]]", game_orders="balanced", judge_prompt_layout=layout
    )
    (winner,) = [member for member in judgment.members if member.label == "1 won, 0 tied, 0 lost"]
    assert winner.detail is not None and winner.detail.looks == (Look(1, 2, 1.0),)


def test_missing_extra_is_named(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "statistics", ("no_such_module",))  # type: ignore[arg-type]
    with pytest.raises(MissingExtraError, match=r"\[statistics\]"):
        TournamentGroupJudge(TournamentSettings(), connect("http://127.0.0.1:1/v1"))
