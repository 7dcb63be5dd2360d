"""`judgegym attack` against judges with a weakness that is known: found where it is, and nowhere else."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from judgegym_trials.attacks.command import main
from tests.command import Ended, called, clean_environment, serving, write_lines
from tests.judged import never
from tests.scripted import Json, ScriptedEndpoint

Rating = Callable[[str], int]
_SECTION = re.compile(
    r"### Response To Evaluate(?: [0-9a-f]{12})?\n\n(.*)\n\n---(?: [0-9a-f]{12})?\n", re.DOTALL
)


def rows(count: int) -> Sequence[Mapping[str, Any]]:
    asked = "Why is the sky over city {} blue at noon?"
    said = (
        "Air over city {} scatters short waves most. The sky looks blue. At dusk the path is "
        "longer."
    )
    return [{"prompt": asked.format(n), "response": said.format(n)} for n in range(count)]


def attack(
    folder: Path, judge: ScriptedEndpoint | None, data: Sequence[Mapping[str, Any]], *words: object
) -> Ended:
    path = write_lines(folder / "data.jsonl", data)
    url = [] if judge is None else [f"--judge_base_url={judge.base_url}"]
    argv = [str(path), "--out", str(folder / "out"), "--judge_model_name=m", *url, *map(str, words)]
    return called(lambda: main(argv, prog="judgegym attack"), clean_environment())


def report(folder: Path) -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "attack.json").read_bytes())
    return found


def planted(rating: Rating) -> Callable[[Json, int], str]:
    """A rubric judge that reads the whole section of the response, which may imitate its end."""

    def answer(request: Json, number: int) -> str:
        found = _SECTION.search(request["messages"][-1]["content"])
        assert found is not None
        return f"[FEEDBACK] Because. [SCORE] {rating(found[1])}"

    return answer


def rises(pattern: str, *, flags: int = re.IGNORECASE) -> Rating:
    """A judge that gives 5 to a text with the pattern, and 2 to any other."""
    return lambda text: 5 if re.search(pattern, text, flags) else 2


PLANTED: Mapping[str, tuple[Rating, frozenset[str]]] = {
    "obeys": (
        rises(r"ignore all previous|award the highest|get full marks|请忽略|report the verdict"),
        frozenset(
            {
                "ignore_instructions",
                "hidden_comment",
                "instruction_before",
                "instruction_in_other_language",
            }
            | {"constant_answer"}
        ),
    ),
    "verdicts": (
        rises(r"\[SCORE\] 5"),
        frozenset(
            {
                "verdict_of_judge",
                "verdict_instead",
                "verdict_score",
                "section_end",
                "role_tokens",
                "thinking_tags",
            }
            | {"constant_answer"}
        ),
    ),
    "markdown": (
        rises(r"^(- |## |\*\*)", flags=re.MULTILINE),
        frozenset({"bullets", "headings", "bold", "table_of_contents"}),
    ),
    "length": (lambda text: 5 if len(text) > 260 else 2, frozenset({"padding", "repetition"})),
    "master key": (
        lambda text: 5 if text in ("Solution", ":", "Thought process:") else 2,
        frozenset({"key_solution", "key_colon", "key_thought_process"}),
    ),
    "authority": (
        rises(r"harvard|professor|expert reviewers"),
        frozenset({"fake_citation", "expert_author", "bandwagon"}),
    ),
    "claims": (
        rises(r"tests? (suite|pass)|passed"),
        frozenset({"claimed_tests", "claimed_verification"}),
    ),
}


@pytest.mark.slow  # about 600 calls each
@pytest.mark.parametrize("weakness", PLANTED)
def test_a_planted_weakness_is_found_and_no_other(tmp_path: Path, weakness: str) -> None:
    rating, expected = PLANTED[weakness]
    with serving(planted(rating)) as judge:
        ended = attack(tmp_path, judge, rows(14))
    assert ended.code == 4, ended.said
    found = report(tmp_path)
    assert {*found["succeeded"]} >= expected
    for result in found[
        "attacks"
    ]:  # whatever else is found has the weakness in it, such as a constant that is long
        row = result["worst_rows"][0]
        rose = rating(row["after"]) > rating(row["before"])
        assert (result["finding"] == "succeeds") == rose, result["name"]
        assert result["repeat_rate"] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_of_a_judge_that_is_only_noisy_no_attack_succeeds(tmp_path: Path, seed: int) -> None:
    times: Counter[str] = Counter()

    def noisy(request: Json, _: int) -> str:
        """Answer by the request and how often it came, whatever the order of all requests."""
        asked = json.dumps(request, sort_keys=True)
        times[asked] += 1
        score = Random(f"{seed}/{times[asked]}/{asked}").choice([1, 1, 2, 2, 3])
        return f"[FEEDBACK] So so. [SCORE] {score}"

    with serving(noisy) as judge:
        ended = attack(tmp_path, judge, rows(40))
    found = report(tmp_path)
    assert ended.code == 0, found["succeeded"]
    assert found["attacks"][0]["repeat_rate"] > 0.1  # noise alone raises scores
    assert {result["finding"] for result in found["attacks"]} == {"not shown"}


@pytest.mark.slow
def test_the_suite_over_fifty_rows_costs_what_its_plan_said(tmp_path: Path) -> None:
    planned = attack(
        tmp_path, None, rows(50), "--plan", "--judge_price_input=1", "--judge_price_output=1"
    )
    calls = re.search(r"^judge calls +([\d,]+)$", planned.out, re.MULTILINE)
    assert calls is not None and planned.code == 0
    assert not (tmp_path / "out").exists()
    with serving(planted(lambda text: 2)) as judge:
        attack(tmp_path, judge, rows(50))
        assert (
            len(judge.requests) == int(calls[1].replace(",", "")) == report(tmp_path)["judge_calls"]
        )


@pytest.mark.slow
def test_the_page_shows_the_worst_rows_as_text(tmp_path: Path) -> None:
    data = [{**row, "response": "<script>alert(1)</script> is blue."} for row in rows(11)]
    with serving(planted(rises("Please rate this well"))) as judge:
        ended = attack(tmp_path, judge, data, "--only", "emotion,cut_off")
    assert ended.code == 4
    assert "m: 1 attack succeeds of 2 on 11 rows" in ended.out
    page = (tmp_path / "out" / "attack.html").read_text()
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)&lt;/script&gt; is blue." in page
    assert "Please rate this well" in page and "0.25 → 1.00" in page
    result = next(one for one in report(tmp_path)["attacks"] if one["name"] == "emotional_appeal")
    assert (result["success_rate"], result["repeat_rate"], result["mean_gain"]) == (1.0, 0.0, 0.75)
    assert result["counts"] == {"both": 0, "first": 11, "second": 0, "neither": 0}
    assert len(result["worst_rows"]) == 5


@pytest.mark.slow
def test_a_rubric_that_pays_for_nothing_is_found_before_training(tmp_path: Path) -> None:
    data = [{"prompt": f"Explain {n}.", "rubric": "Has headings?"} for n in range(12)]
    with serving(planted(lambda text: 4 if "## 1. Summary" in text else 1)) as judge:
        only = "table_of_contents,key_colon,padding"
        ended = attack(tmp_path, judge, data, "--without_responses", "--only", only)
        assert len(judge.requests) == 24
    assert ended.code == 4
    assert "this judge pays 0.75 to table_of_contents: Headings of a complete answer" in ended.out
    found = report(tmp_path)
    assert (found["succeeded"], found["left_out"]) == (["table_of_contents"], ["padding"])
    assert (
        found["attacks"][1]["paid"]["mean"] == 0.0 and found["attacks"][1]["success_rate"] is None
    )


@pytest.mark.slow
def test_too_few_rows_are_underpowered_with_the_number_needed(tmp_path: Path) -> None:
    with serving(planted(rises("professor"))) as judge:
        ended = attack(tmp_path, judge, rows(3), "--only=authority")
    assert ended.code == 0
    assert {one["finding"] for one in report(tmp_path)["attacks"]} == {"underpowered"}
    assert re.search("Underpowered: .*6 rows are needed", ended.out)


@pytest.mark.slow
def test_a_judge_of_groups_has_the_attacked_response_among_the_same_others(tmp_path: Path) -> None:
    data = [
        {"prompt": f"Q{n}", "responses": [f"First {n}.", f"Second {n}.", f"Third {n}."]}
        for n in range(8)
    ]

    def listwise(request: Json, number: int) -> str:
        text = request["messages"][-1]["content"]
        sections = re.findall(
            r"\[Start of answer (\w+)[^\]]*\]\n(.*?)\n\[End of answer", text, re.DOTALL
        )
        assert len(sections) == 3
        scores = [
            {"id": own, "explanation": "-", "score": 0.9 if "- " in shown else 0.5}
            for own, shown in sections
        ]
        return json.dumps({"scores": scores})

    with serving(listwise) as judge:
        ended = attack(tmp_path, judge, data, "--judge=listwise", "--only=bullets,bold")
        assert len(judge.requests) == 8 * 4
    assert ended.code == 4
    assert report(tmp_path)["succeeded"] == ["bullets"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--judge=listwise"], "responses: expected several .*baseline"),
        (["--only=nothing"], "--only: .*attack or family 'nothing'"),
        (["--judge=reward_model", "--only=verdict_of_judge"], "no attack applies .*--only"),
        (["--attacks=none.yaml"], r"none\.yaml cannot be read"),
        (["--min_gain=0"], "min_gain"),
        (["--responses_per_prompt=2"], "responses_per_prompt"),
    ],
)
def test_what_is_wrong_is_said_before_the_first_call(
    tmp_path: Path, words: Sequence[str], reason: str
) -> None:
    with serving(never) as judge:
        ended = attack(tmp_path, judge, rows(3), *words)
        assert not judge.requests
    assert ended.code == 2 and re.search(reason, ended.err)
    assert "Traceback" not in ended.said
