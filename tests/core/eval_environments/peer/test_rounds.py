"""How many calls a peer evaluation makes, what they are about, and when its rounds end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers import NAMES, Asked, Minds, Said, asked, bench, evaluate, queries, scored
from tests.scripted import Json, Meeting, Reply

OTHERS = [(judge, candidate) for judge in NAMES for candidate in NAMES if judge != candidate]


def down_to(floors: dict[tuple[str, str], int], otherwise: int = 90) -> Minds:
    """Judges that begin at 90 and go down by ten a round, each pair to its own floor."""

    def critique(it: Asked) -> Said:
        return max(it.score - 10, floors.get((it.model, it.candidate), otherwise))

    return Minds(judgment=lambda it: 90, critique=critique)


@pytest.mark.slow
@pytest.mark.parametrize(("include_self", "judgments"), [(False, 6), (True, 9)])
def test_calls_without_critique(tmp_path: Path, include_self: bool, judgments: int) -> None:
    with bench(tmp_path) as models:
        ended = models.evaluate("--env.critique_rounds=0", f"--env.include_self={include_self}")
        pairs = [(it.model, it.candidate) for it in models.asked() if it.kind == "judgment"]
    assert ended.code == 0, ended.said
    assert models.counts() == {"answer": 3, "judgment": judgments}
    wanted = OTHERS + [(name, name) for name in NAMES] * include_self
    assert sorted(pairs) == sorted(wanted)
    assert f"3 answers, {judgments} judgments: {3 + judgments} calls" in ended.said
    assert ended.history == []
    assert not (ended.files.path / "scores_round_1.csv").exists()
    assert len(ended.cells("q0")) == judgments
    assert "critique_changed_rate" not in ended.metrics


@pytest.mark.slow
def test_rounds_end_where_nothing_changes(tmp_path: Path) -> None:
    """All six pairs in the first round, the two that it changed in the second, the one that that changed in the third,
    which leaves it as it is."""
    with bench(tmp_path, down_to({("ann", "bob"): 80, ("bob", "cid"): 70})) as models:
        ended = models.evaluate("--env.critique_rounds=9")
        critiques = [it for it in models.asked() if it.kind == "critique"]
    assert ended.code == 0, ended.said
    assert models.counts() == {"answer": 3, "judgment": 6, "critique": 6 + 2 + 1}
    assert sorted((it.model, it.candidate, it.score) for it in critiques if it.score < 90) == [
        ("ann", "bob", 80),
        ("bob", "cid", 70),
        ("bob", "cid", 80),
    ]
    statuses = [(each["round"], each["status"]) for each in ended.history]
    assert sorted(statuses) == [
        *[(1, "revised")] * 2,
        *[(1, "unchanged")] * 4,
        (2, "revised"),
        (2, "unchanged"),
        (3, "unchanged"),
    ]
    assert [ended.table(number)[1][2] for number in range(4)] == ["90", "80", "80", "80"]
    assert [ended.table(number)[2][3] for number in range(4)] == ["90", "80", "70", "70"]
    assert not (ended.files.path / "scores_round_4.csv").exists()


@pytest.mark.slow
def test_a_failed_round_is_tried_again_in_the_next_one(tmp_path: Path) -> None:
    tried: list[Asked] = []

    def critique(it: Asked) -> Said:
        if (it.model, it.candidate) != ("ann", "bob"):
            return it.score
        tried.append(it)
        return "No." if len(tried) == 1 else 30

    ended = evaluate(tmp_path, "--env.critique_rounds=2", minds=Minds(critique=critique))
    assert [(it.score, it.reasoning) for it in tried] == [(50, "So it seems.")] * 2
    assert [each["status"] for each in ended.history if each["evaluated_model"] == "bob"][:2] == [
        "failed",
        "revised",
    ]
    assert [ended.table(number)[1][2] for number in range(3)] == ["50", "50", "30"]


@pytest.mark.slow
def test_each_round_is_shown_the_one_before(tmp_path: Path) -> None:
    def critique(it: Asked) -> Said:
        return scored(it.score + 1, f"{it.reasoning}+")

    with bench(tmp_path, Minds(critique=critique)) as models:
        ended = models.evaluate("--env.critique_rounds=2")
    shown = {(it.score, it.reasoning) for it in models.asked() if it.kind == "critique"}
    assert shown == {(50, "So it seems."), (51, "So it seems.+")}
    assert {cell["score"] for cell in ended.cells("q0").values()} == {52}
    assert {cell["before_score"] for cell in ended.cells("q0").values()} == {50}
    assert ended.metrics["critique_mean_change"] == 2.0
    assert ended.metrics["critique_raised_rate"] == 1.0


@pytest.mark.slow
def test_the_rounds_have_two_names(tmp_path: Path) -> None:
    ended = evaluate(
        tmp_path, "--env.judge_critique_rounds=2", minds=Minds(critique=lambda it: it.score - 1)
    )
    assert {cell["score"] for cell in ended.cells("q0").values()} == {48}


def test_two_numbers_of_rounds_are_one_too_many(tmp_path: Path) -> None:
    with bench(tmp_path) as models:
        ended = models.evaluate("--env.critique_rounds=1", "--env.judge_critique_rounds=2")
    assert ended.code == 2
    assert "critique_rounds (1) and judge_critique_rounds (2) " in ended.said
    assert models.counts() == {}


@pytest.mark.slow
def test_a_row_may_have_a_rubric_of_its_own(tmp_path: Path) -> None:
    """Where it has none, that of the settings counts; only where it is about correctness, that is emphasised."""
    own = {"uid": "q1", "query": "Question 1?", "rubric": "Brevity (100 points)"}
    file = tmp_path / "rubric.txt"
    file.write_text("Correctness & Accuracy (60 points)\nTone (40 points)")
    with bench(tmp_path) as models:
        ended = models.evaluate(f"--env.rubric=@{file}", rows=[*queries(1), own])
        shown = [
            (asked(body), body["messages"][0]["content"])
            for each in models.endpoints.values()
            for body in each.bodies
        ]
    assert ended.code == 0, ended.said
    judging = [(it, content) for it, content in shown if it.kind != "answer"]
    assert {(it.query, it.rubric) for it, _ in judging} == {
        ("Question 0?", file.read_text()),
        ("Question 1?", "Brevity (100 points)"),
    }
    for it, content in judging:
        assert ("Correctness & Accuracy has the highest impact" in content) == (
            it.query == "Question 0?"
        )


@pytest.mark.slow
def test_everything_is_under_way_at_once(tmp_path: Path) -> None:
    """Every answer of every query, and every judgment of one, before any has come."""
    meetings: dict[str, Meeting] = {
        "answer": Meeting(6),
        "judgment": Meeting(12),
        "critique": Meeting(12),
    }

    async def script(request: Json, number: int) -> str | Reply:
        await meetings[asked(request).kind].wait()
        return Minds()(request, number)

    with bench(tmp_path, script, names=("one",)) as models:
        endpoint = models.endpoints.pop("one")
        models.endpoints |= dict.fromkeys(NAMES, endpoint)
        named = models.models(*NAMES)
        ended = models.evaluate(rows=queries(2), candidates=named)
    assert ended.code == 0, ended.said
    assert endpoint.peak >= 12


@pytest.mark.slow
def test_agreement_and_self_preference(tmp_path: Path) -> None:
    """Judges that agree on the order, of which one gives itself ten points more than it is given."""

    def judgment(it: Asked) -> int:
        return {"ann": 20, "bob": 50, "cid": 80}[it.candidate] + 10 * (
            (it.model, it.candidate) == ("cid", "cid")
        )

    ended = evaluate(
        tmp_path,
        "--env.critique_rounds=0",
        "--env.include_self=True",
        minds=Minds(judgment=judgment),
        rows=queries(2),
    )
    found = ended.metrics
    assert [
        found[f"spearman_{pair}"] for pair in ("ann_bob", "ann_cid", "bob_cid")
    ] == pytest.approx([1, 1, 1])
    assert 0.9 < found["krippendorff_alpha"] < 1
    # cid's scores are centred on 160/3, the others' on 50.
    assert found["self_preference_cid"] == pytest.approx((90 - 160 / 3) - (80 - 50))
    assert found["self_preference_ann"] == pytest.approx(
        (20 - 50) - ((20 - 50) + (20 - 160 / 3)) / 2
    )
