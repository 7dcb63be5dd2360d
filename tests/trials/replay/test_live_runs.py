"""A replayed jury or cascade, and the same one live over HTTP: samples, calls and cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from judgegym.engine.runs.directory import locate_run_directory
from judgegym.engine.runs.recorded_calls import read_ledger
from tests.command import RunFiles, serving, write_lines
from tests.core.datasets.scoring import samples_of, score
from tests.scripted import ScriptedEndpoint
from tests.trials.replay.recorded import choose, replay, steady_judge

PRICES = {"judge_price_input": 1.0, "judge_price_output": 2.0}
COUNTED = ("judge_calls", "judge_cost_usd", "judge_cached_calls", "judge_error_rate", "mean_score")
VOTING = {"judge": "aspect", "aspects": "correctness", "strictness": 3}
Settings = Mapping[str, Any]


class LiveRuns:
    """`judgegym score` on one file of rows, at one endpoint."""

    def __init__(self, folder: Path, endpoint: ScriptedEndpoint) -> None:
        self.folder, self.endpoint, self.data = folder, endpoint, folder / "data.jsonl"

    def __call__(self, name: str, settings: Settings) -> Path:
        """Judge the rows; return the file."""
        out, config = self.folder / f"{name}.jsonl", self.folder / f"{name}.yaml"
        config.write_text(json.dumps({"max_judge_error_rate": 1.0, **settings}), "utf-8")
        ended = score(
            self.data,
            "--out",
            out,
            f"--judge_base_url={self.endpoint.base_url}",
            "--config",
            config,
        )
        assert ended.code == 0, ended.said
        return out

    def single(self, name: str, **settings: Any) -> Path:
        return self(name, {"judge_model_name": name, **PRICES, **settings})

    def replayed(self, name: str, *words: object) -> Path:
        """Replay without a request; return the file."""
        asked, out = len(self.endpoint.requests), self.folder / f"{name}.jsonl"
        ended = replay(*words, "--out", out)
        assert ended.code == 0, ended.said
        assert len(self.endpoint.requests) == asked
        return out


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveRuns]:
    with serving(steady_judge) as endpoint:
        yield LiveRuns(tmp_path, endpoint)


def rows(count: int) -> Sequence[Settings]:
    return [{"prompt": f"Why {n}?", "response": f"Because of {n}."} for n in range(count)]


def parts(**settings: Settings) -> Settings:
    """Members as a live command has them."""
    return {
        name: {"judge": "rubric", "judge_model_name": name, **PRICES, **given}
        for name, given in settings.items()
    }


def assert_equal_runs(replayed: Path, live: Path) -> None:
    """Both runs have the same samples and failures but for `run`, and the same calls and cost."""
    one, other = (RunFiles(locate_run_directory(path)) for path in (replayed, live))
    assert one.without_run() == other.without_run()
    assert [{**line, "run": 0} for line in one.failures] == [
        {**line, "run": 0} for line in other.failures
    ]
    metrics = [{name: each.metrics.get(name) for name in COUNTED} for each in (one, other)]
    assert metrics[0] == pytest.approx(metrics[1]) and metrics[0]["judge_cost_usd"]
    calls = [sorted(_calls(each.path)) for each in (one, other)]
    assert calls[0] == calls[1]


def _calls(run: Path) -> Iterator[tuple[str, str, str]]:
    for fields in read_ledger(run, lambda line: line.fields()):
        call: Any = fields.get("call", fields)
        if "component" in call and "response_format" not in call.get(
            "error", ""
        ):  # how often that is tried varies
            yield (
                call["row"],
                call["component"],
                json.dumps(call.get("answer", call.get("error")))[:200],
            )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveRuns]:
    """Six rows judged by `cheap`, by `strong`, and by the jury of both, `live`."""
    with serving(steady_judge) as endpoint:
        live = LiveRuns(tmp_path_factory.mktemp("recorded"), endpoint)
        write_lines(live.data, rows(6))
        for name in ("cheap", "strong"):
            live.single(name)
        live("live", {"judges": parts(cheap={}, strong={}), "jury_rule": "median"})
        yield live


def test_a_replayed_jury_is_the_live_one(recorded: LiveRuns) -> None:
    runs = [recorded.folder / f"{name}.jsonl" for name in ("cheap", "strong")]
    replayed = recorded.replayed("replayed", *runs, "--jury", "median")
    assert_equal_runs(replayed, recorded.folder / "live.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["mean", "majority", "unanimous"])
def test_a_jury_of_unlike_judges_with_failures_is_the_live_one(live: LiveRuns, rule: str) -> None:
    write_lines(live.data, rows(40))
    given: dict[str, Settings] = {
        "cheap": VOTING,
        "strong": {"seed": 3},
        "plain": {"judge_output": "json_schema"},
    }
    runs = [live.single(name, **settings) for name, settings in given.items()]
    live_run = live("live", {"judges": parts(**given), "jury_rule": rule, "jury_quorum": 2})
    replayed = live.replayed("replayed", *runs, "--jury", rule, "--jury_quorum", 2)
    assert_equal_runs(replayed, live_run)
    assert RunFiles(locate_run_directory(replayed)).failures or rule != "unanimous"


@pytest.mark.slow
def test_a_cascade_is_the_live_one_also_where_a_row_has_several_responses(live: LiveRuns) -> None:
    write_lines(
        live.data,
        [{"prompt": f"Why {n}?", "responses": [f"Of {n}.", f"Not of {n}.", ""]} for n in range(30)],
    )
    runs = [live.single("cheap"), live.single("strong")]
    for threshold in (0.4, 0.9):
        chosen = {"cascade_threshold": threshold, "cascade_share": 0.5, "cascade_recheck": 0.3}
        live_run = live(f"live_{threshold}", {"cascade": parts(cheap={}, strong={}), **chosen})
        settings = live.folder / "chosen.yaml"
        settings.write_text(json.dumps(chosen), "utf-8")
        assert_equal_runs(
            live.replayed(f"replayed_{threshold}", *runs, "--cascade", f"@{settings}"), live_run
        )


@pytest.mark.slow
def test_a_preset_of_a_cascade_escalates_in_use_what_the_command_said(live: LiveRuns) -> None:
    write_lines(live.data, rows(120))
    runs = [live.single("cheap", **VOTING), live.single("plain")]
    preset, numbers = live.folder / "preset.yaml", live.folder / "numbers.json"
    ended = choose(
        *runs, "--confidence=votes", "--keep=0.6", f"--out={preset}", f"--json={numbers}"
    )
    assert ended.code == 0, ended.said
    found = json.loads(numbers.read_bytes())
    assert 0 < found["held_out"]["escalated"] < 1
    out = live.folder / "used.jsonl"
    assert score(live.data, "--out", out, "--config", preset, "--max_judge_error_rate=1").code == 0
    assert_equal_runs(live.replayed("replayed", *runs, "--cascade", f"@{preset}"), out)
    escalated = {
        sample["uid"]: sample["detail"]["components"].get("cascade.escalated")
        for sample in samples_of(out)
    }
    assert sum(map(bool, escalated.values())) > 20
    listed = replay(*runs, "--cascade", f"@{preset}", "--json", numbers)
    assert listed.code == 0, listed.said
    (candidate,) = [
        each for each in json.loads(numbers.read_bytes())["candidates"] if each["kind"] == "cascade"
    ]
    in_use = [value for value in escalated.values() if value is not None]
    assert candidate["escalated"] == pytest.approx(sum(in_use) / len(in_use), abs=0.05)


def test_a_call_that_is_not_recorded_is_an_error_with_row_and_call(recorded: LiveRuns) -> None:
    moved = write_lines(
        recorded.folder / "moved.jsonl", [*rows(5), {"prompt": "Another", "response": "row."}]
    )
    runs = [recorded.folder / f"{name}.jsonl" for name in ("cheap", "strong")]
    ended = replay(*runs, "--jury", "mean", "--data", moved, "--out", recorded.folder / "out.jsonl")
    assert ended.code == 2
    assert "cheap.run: the call judgment_1 of row-6 to cheap is not recorded" in ended.err, (
        ended.err
    )
    assert not (recorded.folder / "out.jsonl").exists()
