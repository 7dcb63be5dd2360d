"""Arena-Hard with several candidates, where answers are wrong and endpoints fail."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.command import serving
from tests.contest import OUT_OF_ORDER, answering, better, contest
from tests.scripted import Reply

PATIENT = "--env.max_judge_error_rate=1"


@pytest.mark.slow
def test_wrong_answers_lose_to_all_others_and_tie_with_each_other_without_a_call(
    tmp_path: Path,
) -> None:
    here = contest(tmp_path, 2)
    listed = [here.file("ann"), here.file("bob", {"row-0": ""}), here.file("cid", {"row-0": " \n"})]
    run = here.compare(candidates=listed)
    assert run.code == 0, run.said
    assert {frozenset(game[1:]) for game in run.games if game[0] == "row-0"} == {
        frozenset(("ann", "baseline"))
    }
    (row,) = (sample for sample in run.files.samples if sample["uid"] == "row-0")
    games = [game for game in row["detail"]["games"] if game["decided"] == "format"]
    points = {(game["first"], game["second"]): game["points"] for game in games}
    assert len(points) == 10
    assert points["bob", "cid"] == points["cid", "bob"] == 0.5
    assert points["bob", "baseline"] == points["cid", "ann"] == 0
    assert points["ann", "bob"] == points["baseline", "cid"] == 1
    assert run.metrics["wrong_answers"] == 2 and run.metrics["games_without_a_call"] == 10
    assert run.metrics["missing_answers"] == 0
    assert run.metrics["first_position_advantage"] == 0, (
        "games that nobody judged say nothing about the judge"
    )


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["all", "swiss", "balanced"])
def test_failure_of_an_endpoint_is_no_loss_and_is_mended_by_resuming(
    tmp_path: Path, schedule: str
) -> None:
    here, flag = contest(tmp_path, 4), f"--env.schedule={schedule}"
    verdict = better("ann", "baseline", "bob")
    whole = here.compare(
        flag,
        candidates=["ann", "bob"],
        verdict=verdict,
        policies={"bob": answering("bob")},
        run="all",
    )
    broken = {"bob": answering("bob", failing=("row-1",))}
    run = here.compare(flag, candidates=["ann", "bob"], verdict=verdict, policies=broken)
    assert run.code == 1
    assert re.search(r"12\.5 % .*answers are missing", run.said)
    assert run.metrics["missing_answers_bob"] == 1 and run.metrics["answer_error_rate"] == 0.125
    games = {sample["uid"]: sample["detail"]["games"] for sample in run.files.samples}
    assert all("bob" not in (game["first"], game["second"]) for game in games["row-1"])
    again = here.compare(
        flag,
        "--resume",
        candidates=["ann", "bob"],
        verdict=verdict,
        policies={"bob": answering("bob")},
    )
    assert again.code == 0, again.said
    assert len(again.policies["bob"].bodies) == 1
    assert {uid for uid, *_ in again.games} == {"row-1"}
    assert sorted(run.games + again.games) == sorted(whole.games), (
        "no game is played twice, or in vain"
    )
    assert again.files.without_run() == whole.files.without_run()


@pytest.mark.slow
def test_failed_game_costs_that_game(tmp_path: Path) -> None:
    def verdict(uid: str, *game: str) -> Reply | str:
        return (
            OUT_OF_ORDER
            if (uid, *game) == ("row-2", "ann", "bob")
            else better("ann", "baseline", "bob")(uid, *game)
        )

    here = contest(tmp_path, 4)
    run = here.compare(candidates=["ann", "bob"], verdict=verdict)
    assert run.code == 0, run.said
    assert run.metrics["games_failed"] == 1 and run.metrics["games_played"] == 23
    assert run.metrics["game_error_rate"] == pytest.approx(1 / 24)
    assert "games without verdict" in run.said
    assert run.metrics["winrate_ann_vs_bob"] == 1
    strict = here.compare(
        "--resume", "--env.max_judge_error_rate=0.01", candidates=["ann", "bob"], verdict=verdict
    )
    assert strict.code == 1
    assert re.search(r"4\.2 % of the games .*no verdict", strict.said)
    assert strict.games == [("row-2", "ann", "bob")], "only that game is asked for again"


@pytest.mark.slow
def test_later_rounds_of_swiss_wait_for_a_failed_game(tmp_path: Path) -> None:
    """Who meets in them depends on its result: what is paid for now is of use when the run is resumed."""
    here, names, flag = contest(tmp_path, 6), ("ann", "bob", "cid"), "--env.schedule=swiss"
    verdict = better("ann", "baseline", "bob", "cid")
    whole = here.compare(flag, candidates=names, verdict=verdict, run="whole")
    failing = next(game for game in whole.games if game[0] == "row-2")

    def refusing(*game: str) -> Reply | str:
        return OUT_OF_ORDER if game == failing else verdict(*game)

    run = here.compare(flag, candidates=names, verdict=refusing)
    assert sum(game[0] == "row-2" for game in run.games) == 4, "the first round"
    again = here.compare(flag, "--resume", candidates=names, verdict=verdict)
    assert again.code == 0, again.said
    played = [game for game in run.games if game != failing]
    assert sorted(played + again.games) == sorted(whole.games)
    assert again.files.without_run() == whole.files.without_run()


@pytest.mark.slow
def test_row_without_any_verdict_fails_and_one_without_any_answer_is_the_policys(
    tmp_path: Path,
) -> None:
    def verdict(uid: str, *game: str) -> Reply | str:
        return OUT_OF_ORDER if uid == "row-0" else "[[A=B]]"

    policies = {name: answering(name, failing=("row-1",)) for name in ("bob", "bert")}
    run = contest(tmp_path, 4).compare(
        PATIENT, candidates=["bob", "bert"], verdict=verdict, policies=policies
    )
    statuses = {row["uid"]: row["status"] for row in run.files.failures}
    assert statuses == {"row-0": "judge_failed", "row-1": "policy_failed"}
    assert run.metrics["missing_answers"] == 2 and run.metrics["games_failed"] == 6
    assert run.metrics["selected_rows"] == 4 and run.metrics["total_samples"] == 2


def test_player_whom_no_game_connects_has_no_rating(tmp_path: Path) -> None:
    here = contest(tmp_path, 3)
    broken = {"bob": answering("bob", failing=here.uids)}
    run = here.compare(PATIENT, candidates=["ann", "bob"], policies=broken)
    assert "no game" in run.left_out["rating_bob"]
    assert "not met" in run.left_out["winrate_bob_vs_baseline_ci_low"]
    assert "rating_ann" in run.metrics
    assert (
        run.table("ratings.csv")[-1]["name"] == "bob"
        and run.table("ratings.csv")[-1]["rating"] == ""
    )


@pytest.mark.slow
def test_costs_are_counted_by_candidate_failed_rows_included(tmp_path: Path) -> None:
    def verdict(uid: str, *game: str) -> Reply | str:
        return OUT_OF_ORDER if uid == "row-0" else "[[A=B]]"

    here = contest(tmp_path, 3)
    with serving(answering("bob")) as bob:
        priced = {"name": "bob", "base_url": bob.base_url, "price_input": 1e6, "price_output": 2e6}
        run = here.compare(PATIENT, candidates=[here.file("ann"), priced], verdict=verdict)
    assert run.metrics["answers_cost_usd_bob"] == run.metrics["policy_cost_usd"] == 3 * (10 + 2 * 5)
    assert "eval/answers_cost_usd_ann" not in run.files.report["results"]["all"], "nobody was asked"
