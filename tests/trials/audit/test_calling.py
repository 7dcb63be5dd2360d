"""An audit that calls the judge, against judges whose faults are known, at an endpoint that counts the calls."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.errors import SettingsError
from judgegym_trials.audit.asking import CalledAuditSettings, select_labelled
from judgegym_trials.audit.command import main
from judgegym_trials.audit.reading import NO_GOLD
from judgegym_trials.audit.wordings import SHIPPED, load_wordings
from judgegym_trials.judged_rows import read_tasks
from tests.command import Ended, called, clean_environment, serving, write_lines
from tests.core.datasets.scoring import rated
from tests.judged import never
from tests.scripted import Json, Script, ScriptedEndpoint

Rows = Sequence[Mapping[str, Any]]
_SHOWN = re.compile(
    r"^\[The Start of Assistant [AB]'s Answer(?: \w+)?\]\n(.*?)\n\[The End",
    re.MULTILINE | re.DOTALL,
)
_GAMES = re.compile(
    r"^<\|The Start of Assistant [AB]'s Answer(?: \w+)?\|>\n(.*?)\n<\|The End",
    re.MULTILINE | re.DOTALL,
)
_LISTED = re.compile(
    r"^\[Start of answer (\w+)(?: \w+)?\]\n(.*?)\n\[End of answer", re.MULTILINE | re.DOTALL
)


def pairs(count: int) -> Rows:
    """Pairs of which the response that is better says so to judges that look."""
    numbers = Random(3)
    rows = []
    for number in range(count):
        label = numbers.choice([1, 2])
        texts = [
            f"{'right' if side == label else 'wrong'} {'word ' * numbers.randint(1, 40)}."
            for side in (1, 2)
        ]
        rows.append(
            {
                "uid": f"pair-{number}",
                "prompt": f"Question {number}?",
                "responses": texts,
                "label": label,
            }
        )
    return rows


def audit(folder: Path, judge: ScriptedEndpoint | None, data: Rows, *words: object) -> Ended:
    folder.mkdir(exist_ok=True)
    path = write_lines(folder / "data.jsonl", data)
    url = [] if judge is None else [f"--judge_base_url={judge.base_url}"]
    argv = [str(path), "--out", str(folder / "out"), "--judge_model_name=m", *url, *map(str, words)]
    return called(lambda: main(argv, prog="judgegym audit"), clean_environment())


def report(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "audit.json").read_bytes())
    return {**found, "by_name": {check["name"]: check for check in found["checks"]}}


def planned(folder: Path, data: Rows, *words: object) -> int:
    ended = audit(folder, None, data, *words, "--plan")
    found = re.search(r"^judge calls +([\d,]+)$", ended.out, re.MULTILINE)
    assert ended.code == 0 and found is not None, ended.said
    return int(found[1].replace(",", ""))


def choosing(first: float) -> Script:
    """A judge that chooses the right response, but the one that is shown first in this share of the calls."""

    def answer(request: Json, number: int) -> str:
        shown = _SHOWN.findall(request["messages"][-1]["content"])
        at_first = Random(f"{number}").random() < first or shown[0].startswith("right")
        return f"Because. [[{'A' if at_first else 'B'}]]"

    return answer


@pytest.mark.slow  # some 500 calls
def test_a_preference_for_the_first_is_found_at_the_price_of_the_plan(tmp_path: Path) -> None:
    words = ("--judge=choice", "--paraphrases=shipped", "--sample=20", "--repeats=2")
    calls = planned(tmp_path, pairs(100), *words)
    assert calls == 2 * 100 + 2 * 2 * 20 + 3 * 2 * 20 and not (tmp_path / "out").exists()
    with serving(choosing(0.5)) as judge:
        ended = audit(tmp_path, judge, pairs(100), *words)
        assert len(judge.requests) == calls
        systems = {body["messages"][0]["content"] for body in judge.bodies}
        assert len(systems) == 4 and all(
            '"[[A]]" if assistant A is best' in system for system in systems
        )
    found = report(tmp_path)
    assert ended.code == 4 and f"{calls} calls" in ended.out
    advantage, accuracy = (found["by_name"][name] for name in ("first_place_advantage", "accuracy"))
    assert advantage["word"] == "fails" and advantage["value"] == pytest.approx(0.5, abs=0.1)
    assert accuracy["word"] != "fails" and accuracy["value"] == pytest.approx(0.75, abs=0.08)
    for name in ("repeatability", "paraphrase_agreement"):
        assert found["by_name"][name]["value"] == pytest.approx(0.75, abs=0.15)
    assert (
        found["by_name"]["redraw_rate"]["value"] == 0
        and found["by_name"]["seconds_per_call"]["value"] > 0
    )
    assert (tmp_path / "out" / "audit.html").read_text().count("first-place advantage")


def always_first(request: Json, number: int) -> str:
    text = request["messages"][-1]["content"]
    if listed := _LISTED.findall(text):
        return json.dumps({"scores": [{"id": own, "explanation": "-", "score": 0.9 - 0.5 * n}
                                      for n, (own, _) in enumerate(listed)]})  # fmt: skip
    return "Because. [[A>B]]" if _GAMES.search(text) else "Because. [[A]]"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["choice", "listwise", "tournament", "arena_hard"])
def test_each_judge_that_compares_is_shown_both_orders(tmp_path: Path, kind: str) -> None:
    data = [row | {"baseline": "b", "reference": "r"} for row in pairs(12)]
    with serving(always_first) as judge:
        audit(tmp_path, judge, data, f"--judge={kind}", "--repeats=0")
        assert len(judge.requests) == 2 * 12
    found = report(tmp_path)
    assert [each["verdicts"] for each in found["judgments"]] == [[0.0, 1.0]] * 12
    assert found["by_name"]["first_place_advantage"]["value"] == pytest.approx(1.0)
    assert found["by_name"]["repeatability"]["sentence"].startswith("repeats are off")


@pytest.mark.slow
def test_labels_with_errors_are_stated_or_given_twice_also_where_the_judge_is_called(
    tmp_path: Path,
) -> None:
    data = [
        row | {"second_label": row["label"] if n % 10 else 3 - row["label"]}
        for n, row in enumerate(pairs(40))
    ]
    with serving(choosing(0.0)) as judge:
        words = ("--judge=choice", "--repeats=0")
        twice = audit(tmp_path / "twice", judge, data, *words)
        stated = audit(tmp_path / "stated", judge, data, *words, "--label_noise=0")
        wrong = audit(tmp_path / "wrong", judge, data, *words, "--label_noise=8")
    assert (twice.code, stated.code, wrong.code) == (0, 0, 2) and "label_noise" in wrong.err
    notes = "\n".join(report(tmp_path / "twice")["notes"])
    assert re.search(r"\b40 rows .*two people, .*differ on 4\b", notes)
    assert "labels are exact" in report(tmp_path / "stated")["notes"][0]


def test_columns_that_are_null_are_not_read(tmp_path: Path) -> None:
    data = [row | {"rubric": None, "reference": ""} for row in pairs(12)]
    with serving(choosing(0.0)) as judge:
        ended = audit(tmp_path, judge, data, "--judge=choice", "--repeats=0", "--plan")
    assert (
        ended.code == 0 and "rubric from" not in ended.said and "reference from" not in ended.said
    )


@pytest.mark.slow
def test_noise_fails_repeatability_and_equal_scores_are_a_tie(tmp_path: Path) -> None:
    def noisy(request: Json, number: int) -> str:
        return f"[FEEDBACK] Because. [SCORE] {Random(str(number)).randint(1, 5)}"

    with serving(noisy) as judge:
        assert audit(tmp_path, judge, pairs(60), "--judge=rubric").code == 4
        assert len(judge.requests) == 4 * 60
    found = report(tmp_path)
    assert found["by_name"]["repeatability"]["word"] == "fails"
    assert "response by itself" in found["by_name"]["position_consistency"]["sentence"]
    verdicts = [each["verdicts"][0] for each in found["judgments"]]
    assert {*verdicts} == {-1.0, 0.0, 1.0}  # scores of 1 to 5 are equal in a fifth of the pairs


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [("choice", "rubric"), ("rubric", "choice")])
def test_scores_that_contradict_the_comparisons_are_found(
    tmp_path: Path, kinds: tuple[str, str]
) -> None:
    compare, rate = choosing(0.0), rated(lambda text: 2 if text.startswith("right") else 4)

    def opposite(request: Json, number: int) -> Any:
        is_choice = _SHOWN.search(request["messages"][-1]["content"])
        return (compare if is_choice else rate)(request, number)

    words = (f"--judge={kinds[0]}", f"--second_form={kinds[1]}", "--repeats=0")
    with serving(opposite) as judge:
        assert audit(tmp_path, judge, pairs(30), *words).code == 4
        assert len(judge.requests) == 4 * 30 == planned(tmp_path, pairs(30), *words)
    checks = report(tmp_path)["by_name"]
    assert (checks["contradiction"]["value"], checks["contradiction"]["word"]) == (1.0, "fails")
    assert checks["accuracy"]["value"] == (1.0 if kinds[0] == "choice" else 0.0)


@pytest.mark.slow
def test_labelled_scores_and_labels_are_compared_with_the_judges_own(tmp_path: Path) -> None:
    data: list[dict[str, Any]] = [
        {"prompt": f"Q{n}", "response": f"{1 + n % 5} points", "gold": 1 + n % 5} for n in range(40)
    ]
    with serving(rated(lambda text: int(text[0]))) as judge:
        assert audit(tmp_path, judge, data, "--judge=rubric").code == 0
        assert len(judge.requests) == 2 * 40
    found = report(tmp_path)
    assert (found["kind"], found["by_name"]["weighted_kappa"]["value"]) == (
        "score",
        pytest.approx(1.0),
    )
    assert found["by_name"]["repeatability"]["value"] == 1.0

    def aspect(request: Json, number: int) -> str:
        return (
            f'{{"reason": "-", "verdict": {int("5 points" in request["messages"][-1]["content"])}}}'
        )

    named = [row | {"gold": "yes" if row["gold"] > 3 else "no"} for row in data]
    with serving(aspect) as judge:
        words = ("--judge=aspect", "--aspects=correctness", "--repeats=0")
        audit(tmp_path / "labels", judge, named, *words)
    found = report(tmp_path / "labels")
    assert (found["kind"], found["by_name"]["accuracy"]["value"]) == ("label", pytest.approx(0.8))


@pytest.mark.slow
def test_one_budget_is_for_all_parts_and_resume_pays_for_nothing_twice(tmp_path: Path) -> None:
    words = ("--judge=choice", "--paraphrases=shipped", "--sample=10", "--repeats=0")
    with serving(choosing(0.0)) as judge:
        ended = audit(tmp_path, judge, pairs(20), *words, "--budget_calls=50")
        assert (ended.code, len(judge.requests)) == (
            3,
            50,
        ) and "--resume --budget_calls=100" in ended.err
        again = audit(tmp_path, judge, pairs(20), *words)
        assert again.code == 2 and "--resume" in again.err and len(judge.requests) == 50
        assert audit(tmp_path, judge, pairs(20), *words, "--resume", "--budget_calls=100").code == 0
        assert len(judge.requests) == 2 * 20 + 3 * 2 * 10
    assert report(tmp_path)["by_name"]["paraphrase_agreement"]["value"] == 1.0


@pytest.mark.slow
def test_a_judge_without_verdicts_is_a_failure_and_no_number(tmp_path: Path) -> None:
    def silent(request: Json, number: int) -> str:
        is_silent = "Question 3?" in request["messages"][-1]["content"]
        return "no verdict" if is_silent else choosing(0.0)(request, number)  # type: ignore[return-value]

    with serving(silent) as judge:
        ended = audit(tmp_path, judge, pairs(12), "--judge=choice", "--repeats=0")
    assert ended.code == 1 and re.search(r"judge them again:\s.*--resume", ended.err)
    found = report(tmp_path)
    assert found["judgments"][3]["verdicts"] == [None, None]
    assert found["by_name"]["failure_rate"]["value"] == pytest.approx(1 / 12)
    assert found["by_name"]["redraw_rate"]["value"] > 0


BUILT_IN: Mapping[str, tuple[AnyJudgeSettings, str]] = {
    "rubric": (AnyJudgeSettings(judge="rubric", scale_max=7), "an integer between 1 and 7"),
    "result": (AnyJudgeSettings(judge="rubric", output_format="result"), "[RESULT]"),
    "choice": (AnyJudgeSettings(judge="tournament", tournament_game="choice"), "[[B]]"),
    "arena_hard": (AnyJudgeSettings(judge="arena_hard"), "[[A=B]]"),
    "five labels": (
        AnyJudgeSettings(judge="tournament", judge_protocol="arena_hard_v0.1"),
        "[[B>>A]]",
    ),
    "listwise": (AnyJudgeSettings(judge="listwise"), '"score": <number from 0 to 1>'),
    "aspect": (AnyJudgeSettings(judge="aspect", aspects="correctness"), '"verdict", 1 or 0'),
    "checklist": (
        AnyJudgeSettings(judge="checklist", criteria=["Is short."]),
        '"verdict": "<met or unmet>"',
    ),
}


@pytest.mark.parametrize("name", BUILT_IN)
async def test_three_wordings_of_each_built_in_prompt_ask_for_the_same_form(name: str) -> None:
    settings, form = BUILT_IN[name]
    found = await load_wordings(settings, [JudgeTask("Why?", ("one", "two"))], SHIPPED)
    assert isinstance(found, Mapping), found
    assert [*found] == ["plain", "examiner", "reader"] and len({*found.values()}) == 3
    assert all(form in prompt for prompt in found.values())
    assert settings.built_in_prompt() not in found.values()


@pytest.mark.parametrize(
    ("settings", "tasks", "reason"),
    [
        (AnyJudgeSettings(judge="reward_model"), 1, "kind reward_model "),
        (AnyJudgeSettings(judge="peer"), 1, "no shipped wordings"),
        (AnyJudgeSettings(judge_system_prompt="Judge."), 1, "has another one"),
        (AnyJudgeSettings(), 2, "several prompts"),
    ],
)
async def test_why_there_are_no_wordings_is_said(
    settings: AnyJudgeSettings, tasks: int, reason: str
) -> None:
    both = [JudgeTask("Why?", ("one",)), JudgeTask("Why?", ("one",), reference="two")]
    found = await load_wordings(settings, both[:tasks], SHIPPED)
    assert isinstance(found, str) and reason in found


async def test_wordings_of_ones_own_are_a_file(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("strict: Judge strictly.\n")
    assert await load_wordings(AnyJudgeSettings(judge="peer"), [], str(path)) == {
        "strict": "Judge strictly."
    }
    for text, reason in (
        ("- a", "expected names of wordings"),
        ("../x: a", r"\.\./x: expected a name"),
        ("a: 1", ": a: expected .*a prompt"),
    ):
        path.write_text(text)
        with pytest.raises(SettingsError, match=reason):
            await load_wordings(AnyJudgeSettings(), [], str(path))


@pytest.mark.parametrize(
    ("change", "words", "reason"),
    [
        ({"label": 3}, ("--judge=choice",), "row 1: .*from 1 to 2, found 3"),
        (
            {},
            ("--judge=choice", "--label_column=better"),
            rf"nothing to audit: .*--label_column.* left out: 1 {NO_GOLD}\n",
        ),
        ({}, ("--judge=choice", "--second_form=listwise"), "--second_form: .*one judge"),
        ({}, ("--judge=chioce",), "judge"),
        (
            {},
            ("--judge=choice", "--settings=none.yaml"),
            "--settings: none.yaml cannot be read: No such file",
        ),
        (
            {},
            ("--judge=choice", "--paraphrases=none.yaml"),
            "--paraphrases: none.yaml cannot be read: No such file",
        ),
        ({}, ("--judge=choice", "--verdicts=x"), "verdicts"),
    ],
)
def test_what_is_wrong_is_said_before_the_first_call(
    tmp_path: Path, change: Mapping[str, Any], words: Sequence[str], reason: str
) -> None:
    rows = [{**pairs(1)[0], **change}]
    with serving(never) as judge:
        ended = audit(tmp_path, judge, rows, *words)
        assert not judge.requests
    assert ended.code == 2 and re.search(reason, ended.err) and "Traceback" not in ended.said


def test_the_run_directory_of_another_command_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "metrics.json").write_text("{}")
    ended = audit(tmp_path, None, pairs(2), "--judge=choice", "--offline")
    assert ended.code == 2
    assert f"--out: {tmp_path / 'out'} " in ended.err and "another command" in ended.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["metrics.json"]


@pytest.mark.parametrize("gold", [0.75, "6", "good", True])
def test_gold_that_is_not_on_the_judges_scale_is_said_before_the_first_call(
    tmp_path: Path, gold: Any
) -> None:
    rows = [{"prompt": "Q", "response": "r", "gold": each} for each in (3.5, gold)]
    with serving(never) as endpoint:
        ended = audit(tmp_path, endpoint, rows, "--judge=rubric")
    assert ended.code == 2
    assert "row 2: expected a gold score" in ended.err and "scale, 1 to 5 (" in ended.err


def test_zero_is_a_cluster_as_any_other_value(tmp_path: Path) -> None:
    rows = [{"prompt": f"Q {n}", "response": "r", "gold": 3, "cluster": n % 2} for n in range(6)]
    settings = CalledAuditSettings(
        judge="rubric", data=str(write_lines(tmp_path / "data.jsonl", rows))
    )
    assert [row.cluster for row in select_labelled(read_tasks(settings), settings).rows] == [
        "0",
        "1",
    ] * 3
