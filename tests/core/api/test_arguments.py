"""What the judges in Python say of wrong arguments, and what they show of their settings and results."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import judgegym
from judgegym import (
    ArenaHardJudge,
    AspectJudge,
    JudgmentTable,
    ListwiseJudge,
    PeerJudge,
    RubricJudge,
    TournamentJudge,
)
from judgegym.judges.config.extras import package_version
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.llm.errors import DataError, SettingsError

NAN = float("nan")
MESSAGES = [{"role": "user", "content": "How many?"}]


@pytest.mark.parametrize(
    ("question", "answers", "said"),
    [
        ("How many?", [None], r"^answers\[0\]: .*list of messages, found None$"),
        (
            "How many?",
            ["Eight.", NAN],
            r"^answers\[1\]: .*list of messages, found nan \(float\)$",
        ),
        ("How many?", None, "^answers: .* texts, found None$"),
        ("How many?", {"a": "b"}, "^answers: .* texts, found a dict$"),
        (MESSAGES, ["Eight."], "^question: expected a text, .*a list$"),
    ],
)
@pytest.mark.parametrize("kind", [RubricJudge, AspectJudge, PeerJudge, ArenaHardJudge])
def test_a_wrong_argument_is_named(kind: Any, question: Any, answers: Any, said: str) -> None:
    judge = kind("Is it right?") if kind in (RubricJudge, PeerJudge) else kind()
    others = {"baseline": "Six."} if kind is ArenaHardJudge else {}
    with pytest.raises(DataError, match=said):
        judge.judge_sync(question, answers, **others)


@pytest.mark.parametrize("kind", [ListwiseJudge, TournamentJudge])
@pytest.mark.parametrize(
    ("answers", "others", "said"),
    [
        (8, {}, "answers: .*list"),
        ([8, "a"], {}, r"answers\[0\]: expected"),
        (["a", "b"], {"reference": NAN}, "reference: expected a text, .*nan"),
        (["a", "b"], {"baseline": 3}, "baseline: expected a text, .*3"),
    ],
)
def test_a_wrong_argument_of_a_judge_of_groups_is_named(
    kind: Any, answers: Any, others: Any, said: str
) -> None:
    with pytest.raises(DataError, match=f"^{said}"):
        kind().judge_sync("How many?", answers, **others)


def test_an_error_of_the_settings_names_the_argument_and_no_flag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_KEY", raising=False)
    judge = RubricJudge(
        "?", judge_base_url="https://api.example.com/v1", judge_api_key_env="NO_KEY"
    )
    with pytest.raises(SettingsError, match=r"^judge_api_key_env: .*set judge_api_key=none$"):
        judge.judge_sync("How many?", "Eight.")


@pytest.mark.parametrize(
    "kind", [RubricJudge, AspectJudge, PeerJudge, ArenaHardJudge, ListwiseJudge, TournamentJudge]
)
def test_settings_are_in_the_signature(kind: Any) -> None:
    parameters = inspect.signature(kind).parameters
    settings = kind(offline=True) if kind is not RubricJudge else kind("?", offline=True)
    assert {*type(settings.settings).model_fields} <= {*parameters}
    assert parameters["judge_temperature"].default == settings.settings.judge_temperature
    assert not any(each.kind is each.VAR_KEYWORD for each in parameters.values())


@pytest.mark.slow
def test_many_rows_are_judged_with_progress(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"question": f"What is {n} + 1?", "answer": str(n + 1) if n else " "} for n in range(50)
    ]
    with RubricJudge("Is it right?", offline=True) as judge:
        table = judge.many_sync(rows)
        one = judge.judge_sync(str(rows[7]["question"]), str(rows[7]["answer"]))
        assert judge.many_sync([], progress=True).scores == []
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10 and lines[-1] == "judged 50 of 50 rows, 0 failed"
    assert table.scores[7] == one.scores[0] and table[0].status is Status.INVALID_COMPLETION
    assert (table.failures, table.cost) == ([], one.cost)
    assert [record["answer"] for record in table.records()] == [row["answer"] for row in rows]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"question": "Q"},
            ": found no 'answer'; .*takes question, answer, baseline",
        ),
        (
            {"question": "Q", "answer": "A"},
            ": found no 'baseline'; .*takes question, answer, baseline",
        ),
        (
            {"question": "Q", "answer": "A", "baseline": "B", "baselin": 3},
            ": found the unknown 'baselin'; ",
        ),
        (
            {"question": "Q", "answer": "A", "baseline": "B", "score": 3},
            ": 'score' is a column",
        ),
        (
            {"question": "Q", "answer": None, "baseline": "B"},
            r"\.answer: expected a text",
        ),
        ("Q", ": expected a mapping.* a str"),
    ],
)
def test_a_wrong_row_is_named_before_the_first_call(row: Any, said: str) -> None:
    rows = [{"question": "Q", "answer": "A", "baseline": "B"}, row]
    with pytest.raises(DataError, match=rf"^rows\[1\]{said}"):
        ArenaHardJudge().many_sync(rows)


def test_a_long_table_prints_short(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Judgment[Any](None, Status.JUDGE_FAILED, explanation="away")
    judgments = (*[Judgment[Any](1.0, Status.OK)] * 990, *[failed] * 10)
    table = JudgmentTable(tuple(f"answer {n}" for n in range(1000)), judgments)
    lines = str(table).splitlines()
    assert lines[0] == "1,000 answers: 990 ok, 10 judge_failed"
    assert len(lines) == 3 + 41 and "answer 999" in lines[-1] and len(table.table().rows) == 1000
    assert table.failures == list(range(990, 1000))
    assert table._repr_html_().count("<tr>") == 42


def test_a_table_becomes_one_of_pandas_or_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judgments = (Judgment[Any](1.0, Status.OK), Judgment[Any](None, Status.JUDGE_FAILED))
    table = JudgmentTable(("a", "b"), judgments)
    pandas = pytest.importorskip("pandas")
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and list(frame["answer"]) == ["a", "b"]
    assert frame["score"].mean() == 1.0 and frame["score"].isna().tolist() == [False, True]
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(SettingsError, match=r"^to_pandas .*pip install pandas$"):
        table.to_pandas()


def test_the_package_has_its_version() -> None:
    assert judgegym.__version__ == package_version() and "__version__" in dir(judgegym)
