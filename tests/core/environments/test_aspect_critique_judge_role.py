"""Aspect critique with the policy as the judge: its verdicts against those that people gave."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym.judges import prompts
from tests.aspects import answered, asked, aspects, critique, gold_row, saying, verdict, votes_on
from tests.scripted import Json, Reply, completion

JUDGE = "--env.role=judge"
BOTH = "--env.aspects=correctness,harmfulness"
# Of each aspect, whether gold says yes for answers 0 to 4, and whether the policy does.
GOLD = {"correctness": "11010", "harmfulness": "00110"}
SAID = {"correctness": "10011", "harmfulness": "01110"}
ROWS = [
    gold_row(number, **{name: int(golds[number]) for name, golds in GOLD.items()})
    for number in range(5)
]
NUMBERS = {f"Answer {number}.": number for number in range(5)}
POLICY = saying(lambda aspect, submission: SAID[aspect][NUMBERS[submission]] == "1")


@pytest.mark.slow
def test_verdicts_against_gold(tmp_path: Path) -> None:
    """Right and wrong, of yes and then of no: 2 1 1 1 for correctness, 2 1 2 0 for harmfulness; 4 2 3 1 in all."""
    run = critique(tmp_path, JUDGE, BOTH, rows=ROWS, policy=POLICY)
    assert run.code == 0, run.said
    wanted = {
        "accuracy": 7 / 10,
        "precision": 4 / 6,
        "recall": 4 / 5,
        "f1": 8 / 11,
        "kappa": (0.7 - 0.5) / (1 - 0.5),
    }
    wanted |= {
        "accuracy_correctness": 3 / 5,
        "precision_correctness": 2 / 3,
        "recall_correctness": 2 / 3,
    }
    wanted |= {"f1_correctness": 4 / 6, "kappa_correctness": (0.6 - 0.52) / (1 - 0.52)}
    wanted |= {
        "accuracy_harmfulness": 4 / 5,
        "precision_harmfulness": 2 / 3,
        "recall_harmfulness": 1.0,
    }
    wanted |= {"f1_harmfulness": 4 / 5, "kappa_harmfulness": (0.8 - 0.48) / (1 - 0.48)}
    wanted |= {
        "mean_reward": 7 / 10,
        "mean_reward_correctness": 3 / 5,
        "mean_reward_harmfulness": 4 / 5,
    }
    wanted |= {"n_used": 10, "n_failed": 0, "selected_rows": 10}
    assert run.some(*wanted) == pytest.approx(wanted)
    assert run.left_out == {}
    right = {
        f"r{number}:{name}": SAID[name][number] == GOLD[name][number]
        for number in range(5)
        for name in GOLD
    }
    assert run.scores() == {uid: float(each) for uid, each in right.items()}
    assert run.details("gold")["r2:harmfulness"] is True
    assert not [name for name in run.metrics if name.startswith(("pass_rate", "score_", "veto"))]


@pytest.mark.slow
def test_no_key_of_a_judge_is_demanded_and_none_is_named(tmp_path: Path) -> None:
    run = critique(tmp_path, JUDGE, BOTH, rows=ROWS, policy=POLICY)
    assert run.code == 0, run.said
    assert run.general["judge_model_name"] == run.general["model_name"] == "the-policy"
    assert set(run.general["generation_parameters"]) == {"temperature", "max_tokens"}
    without_policy = critique(tmp_path, JUDGE, BOTH, rows=ROWS, run="without")
    assert without_policy.code == 2
    assert without_policy.lacks("OPENAI_API_KEY") == []


UNREADABLE = {
    "no object": "It is correct.",
    "cut off": Reply(
        body=completion(
            f"At first I thought {verdict(1)} but on reflection", finish_reason="length"
        )
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_unreadable_verdict_is_a_wrong_one(tmp_path: Path, kind: str) -> None:
    """It stays in the mean of the rewards; there is nothing of it to compare with gold."""
    policy = saying(
        lambda aspect, submission: UNREADABLE[kind] if submission == "Answer 0." else True
    )
    rows = [gold_row(number, correctness=int(number < 3)) for number in range(4)]
    run = critique(tmp_path, JUDGE, "--env.aspects=correctness", rows=rows, policy=policy)
    assert run.code == 0, run.said
    assert run.scores() == {
        "r0:correctness": 0.0,
        "r1:correctness": 1.0,
        "r2:correctness": 1.0,
        "r3:correctness": 0.0,
    }
    wanted = {
        "mean_reward": 2 / 4,
        "n_used": 3,
        "n_failed": 1,
        "accuracy": 2 / 3,
        "judge_error_rate": 0.0,
    }
    assert run.some(*wanted) == pytest.approx(wanted)
    assert run.scores("status")["r0:correctness"] == "invalid_completion"


@pytest.mark.slow
def test_several_votes_of_the_policy(tmp_path: Path) -> None:
    """All are asked for at once; a majority decides, and there is none if too many cannot be read."""
    letters = {"Answer 0.": iter("yny"), "Answer 1.": iter("nyn"), "Answer 2.": iter("y??")}

    def policy(request: Json, number: int) -> str:
        letter = next(letters[asked(request)[1]])
        return "I cannot say." if letter == "?" else verdict(letter == "y")

    rows = [gold_row(number, correctness=1) for number in range(3)]
    run = critique(
        tmp_path, JUDGE, "--env.aspects=correctness", "--env.strictness=2", rows=rows, policy=policy
    )
    assert run.code == 0, run.said
    assert list(run.scores().values()) == [1.0, 0.0, 0.0]
    assert set(votes_on(run.policy).values()) == {3}
    wanted = {
        "agreement_correctness": 2 / 3,
        "votes_per_verdict": 7 / 3,
        "redraw_rate": 1 / 3,
        "n_used": 2,
        "n_failed": 1,
    }
    assert run.some(*wanted) == pytest.approx(wanted)


@pytest.mark.slow
def test_a_policy_that_always_says_yes(tmp_path: Path) -> None:
    """A report without a number that is none: each statistic that is not defined is named, with a reason."""
    rows = [
        gold_row(number, correctness=1, harmfulness=0, conciseness=number % 2)
        for number in range(4)
    ]
    flags = (aspects("correctness", "harmfulness", "conciseness"),)
    run = critique(tmp_path, JUDGE, *flags, rows=rows, policy=verdict(1))
    assert run.code == 0, run.said
    assert run.left_out.keys() == {"kappa_correctness", "recall_harmfulness"}
    assert "always the same" in run.left_out["kappa_correctness"]
    assert "gold" in run.left_out["recall_harmfulness"]
    assert "never yes" in run.left_out["recall_harmfulness"]
    wanted = {"accuracy": 1 / 2, "precision": 1 / 2, "recall": 1.0, "f1": 2 / 3, "kappa": 0.0}
    assert run.some(*wanted) == pytest.approx(wanted)
    assert "NaN" not in (run.files.path / "metrics.json").read_text()


@pytest.mark.parametrize(
    "rows", [[answered(0)], [{"question": "Why?", "verdicts": {"correctness": 1}}]]
)
def test_without_a_gold_verdict_there_is_nothing_to_do(
    tmp_path: Path, rows: list[dict[str, object]]
) -> None:
    run = critique(tmp_path, JUDGE, BOTH, rows=rows, policy=verdict(1))
    assert run.code == 2
    assert (
        run.lacks(
            "role=judge", "gold verdicts on correctness, harmfulness", "verdicts", "run.jsonl"
        )
        == []
    )
    assert run.policy.requests == []


def test_thinking_stands_before_the_verdict(tmp_path: Path) -> None:
    """A verdict inside the thinking is none, and malformed thinking makes any verdict a wrong one."""
    texts = {
        "Answer 0.": f"<think>{verdict(0)}</think>{verdict(1)}",
        "Answer 1.": f"<think>{verdict(1)}</think>I cannot say.",
        "Answer 2.": verdict(1),
        "Answer 3.": f"<think>a</think><think>b</think>{verdict(1)}",
    }
    rows = [gold_row(number, correctness=1) for number in range(4)]
    flags = "--env.aspects=correctness", "--env.thinking_mode=True"
    run = critique(
        tmp_path,
        JUDGE,
        *flags,
        rows=rows,
        policy=saying(lambda aspect, submission: texts[submission]),
    )
    assert list(run.scores().values()) == [1.0, 0.0, 0.0, 0.0]
    assert run.some("thinking_valid_rate", "n_failed") == {
        "thinking_valid_rate": 0.5,
        "n_failed": 3,
    }
    for body in run.policy.bodies:
        assert (
            body["messages"][0]["content"]
            == f"{prompts.load('thinking_judge')}\n\n{prompts.load('aspect')}"
        )
