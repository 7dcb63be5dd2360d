"""What the server of the page answers and refuses, over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from judgegym.judges.core.seeding import derive_seed
from judgegym.statistics.corrected import LabelCount
from judgegym_trials.labelling.server import format_precision, make_app
from judgegym_trials.labelling.session import LabelPlan, Precision, Session
from tests.core.engine.runs.full_disk import RefusingDisk
from tests.trials.labelling.made import run_of, session_of

VALUES = (0.0, 1.0, 0.5, 1.0)


@asynccontextmanager
async def served(session: Session) -> AsyncIterator[aiohttp.ClientSession]:
    runner = web.AppRunner(make_app(session, "secret"), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as client:
        yield client
    await runner.cleanup()


async def test_foreign_pages_names_and_addresses_without_the_secret_neither_read_nor_label(
    tmp_path: Path,
) -> None:
    with session_of(run_of(tmp_path / "run", VALUES)) as session:
        async with served(session) as client:
            for path, headers, status in (
                ("/", {}, 404),
                ("/other/row?labeller=ann", {}, 404),
                ("/secret/row?labeller=ann", {"Host": "evil.example"}, 403),
                ("/secret/row?labeller=ann", {"Sec-Fetch-Site": "cross-site"}, 403),
                ("/secret/label", {}, 405),
            ):
                async with client.get(path, headers=headers) as response:
                    assert response.status == status, path
                    assert "Question" not in await response.text()
            name = next(iter(names(session)))
            form = {"labeller": "ann", "row": name, "key": "a"}
            for path, headers, status in (
                ("/label", {}, 404),
                ("/secret/label", {"Host": "evil.example"}, 403),
                ("/secret/label", {"Sec-Fetch-Site": "cross-site"}, 403),
                ("/secret/label", {}, 303),
            ):
                assert not session.labels.by_row_and_labeller
                async with client.post(
                    path, data=form, headers=headers, allow_redirects=False
                ) as response:
                    assert response.status == status, path
    assert len(session.labels.by_row_and_labeller) == 1


async def test_answers_that_no_button_gives_are_refused_and_unknown_rows_lead_to_the_next_one(
    tmp_path: Path,
) -> None:
    with session_of(run_of(tmp_path / "run", VALUES)) as session:
        name = next(iter(names(session)))
        async with served(session) as client:
            for form, status in (
                ({"row": name, "key": "z"}, 400),
                ({"row": name, "key": "ab"}, 400),
                ({"row": name, "key": "a", "given": "b"}, 400),
                ({"row": "0123", "key": "a"}, 303),
                ({"row": name, "key": "a", "labeller": " "}, 303),
            ):
                post = client.post(
                    "/secret/label", data={"labeller": "ann", **form}, allow_redirects=False
                )
                async with post as response:
                    assert response.status == status, form
    assert not session.labels.by_row_and_labeller


async def test_a_label_that_the_disk_refuses_is_said_without_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with session_of(run_of(tmp_path / "run", VALUES)) as session:
        RefusingDisk(room=0).everywhere(monkeypatch)
        async with served(session) as client:
            form = {"labeller": "ann", "row": next(iter(names(session))), "key": "a"}
            async with client.post("/secret/label", data=form) as response:
                text = await response.text()
        assert response.status == 500 and "not saved" in text and str(tmp_path) not in text
        said = capsys.readouterr().err
        assert f"{session.path} cannot be written" in said and "No space left on device" in said
        assert not session.labels.by_row_and_labeller


def names(session: Session) -> list[str]:
    """The names of rows on the page."""
    return [f"{derive_seed(0, uid, 'secret'):016x}" for uid in session.order]


@pytest.mark.parametrize(
    ("precision", "words"),
    [
        (
            Precision(0, 60, "0 labels; at least 2 are needed", 0.05),
            "; no interval yet: 0 labels; at least 2 are needed",
        ),
        (
            Precision(9, 60, 0.2, 0.05, LabelCount(80, 90, 1200)),
            "± 0.200; ± 0.05 takes 80 to 1,200",
        ),
        (Precision(9, 60, 0.2, 0.05, LabelCount(80, 90, None)), "± 0.05 takes 80 to all there are"),
        (
            Precision(9, 60, 0.2, 0.01, LabelCount(None, None, None)),
            "± 0.01 takes more rows",
        ),
        (
            Precision(9, 60, 0.04, 0.05, LabelCount(5, 6, 7)),
            "9 of 60 rows labelled; 95 % interval ± 0.040",
        ),
    ],
)
def test_the_progress_says_how_many_more_labels_are_needed(
    precision: Precision, words: str
) -> None:
    said = format_precision(precision).replace("\u00a0", " ")
    assert words in said and (precision.half_width != 0.04 or said.endswith(words))


async def test_the_next_page_is_not_held_up_by_the_first_label(tmp_path: Path) -> None:
    with session_of(run_of(tmp_path / "run", VALUES), LabelPlan(1)) as session:
        async with served(session) as client:
            form = {"labeller": "ann", "row": names(session)[0], "key": "t"}
            async with client.post("/secret/label", data=form) as response:
                text = await response.text()
        assert "All done: 1 rows" in text and "1 of 1 rows labelled" in text
