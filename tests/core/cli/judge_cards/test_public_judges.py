"""Judges of six formats: a card scores each text as the format does, or what it lacks is listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from judgegym.cli.judge_cards import command
from judgegym.datasets.cluster.batches import BatchScorer
from judgegym.judges.prompt_files.card import load_card
from tests.command import serving
from tests.core.cli.judge_cards.public_judges import PUBLIC_JUDGES, ROWS, PublicJudge

by_judge = pytest.mark.parametrize(
    "judge",
    [pytest.param(judge, id=f"{place}-{judge.name}") for place, judge in enumerate(PUBLIC_JUDGES)],
)


def run_import(judge: PublicJudge, folder: Path) -> tuple[int, Path]:
    path, card = folder / "foreign" / judge.file, folder / "card.yaml"
    path.parent.mkdir()
    path.write_text(judge.text, "utf-8")
    for name, text in judge.more.items():
        (path.parent / name).write_text(text, "utf-8")
    words = ["import", str(path), "--out", str(card), *judge.words]
    return command.main(words, prog="judgegym judge"), card


@by_judge
def test_a_card_scores_as_its_format_does_or_lists_what_it_lacks(
    judge: PublicJudge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, path = run_import(judge, tmp_path)
    printed = capsys.readouterr()
    if judge.refused:
        assert code == 2
        assert judge.refused in printed.err
        assert printed.err.count("\n") == 1
        assert not path.exists()
        return
    assert code == 0, printed.err
    imported = load_card(path).imported
    assert imported is not None
    assert judge.listed in "\n".join(imported.not_carried)
    rows = judge.content if judge.name.startswith("rows-") else ROWS
    batch = {name: [row[name] for row in rows] for name in rows[0]}
    with serving(judge.reply) as endpoint:
        settings = {"judge": str(path)}
        if judge.options:
            settings |= {"judge_base_url": endpoint.base_url, "judge_max_retries": 0}
        scorer = BatchScorer(settings)
        scores = scorer(batch)["judge/score"]
        scorer.close()
    low, high = judge.span
    assert judge.reading is not None
    expected = [judge.reading(row) for row in ROWS]
    assert [None if score is None else low + (high - low) * score for score in scores] == [
        None if score is None else pytest.approx(score, abs=1e-9) for score in expected
    ]


def test_there_are_sixty_and_most_are_carried() -> None:
    carried = [judge for judge in PUBLIC_JUDGES if not judge.refused]
    assert len(PUBLIC_JUDGES) >= 60
    assert len(carried) >= 0.75 * len(PUBLIC_JUDGES)
