"""Kinds of judges that are not built in: what is told of those that cannot be used, and judges in other processes."""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from judgegym import RewardJudge, SettingsError
from judgegym.engine.runs.directory import RunDirectory
from judgegym.environments.prompts_environment import PromptsEnv
from judgegym.environments.training.group_file import open_files
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import RunDirectoryError
from judgegym.monitoring.settings import MonitorSettings
from judgegym.server.settings import RewardServerSettings
from tests.command import serving, write_lines
from tests.conformance.doors.judges import forget_kinds
from tests.core.cli.distributions import install
from tests.core.datasets.scoring import read_rows, score
from tests.core.engine.settings_of import settings_of

JUDGE = """
from judgegym.judges import Judgment, JudgeDefinition, JudgeSettings, SingleJudge, Status, setting


class LengthSettings(JudgeSettings):
    longest: int = setting(20, "As many characters are the best.", ge=1)


class LengthJudge(SingleJudge):
    async def judge(self, task):
        return Judgment(min(1.0, len(task.response) / self.settings.longest), Status.OK)


JUDGE = JudgeDefinition(LengthSettings, "by its length", LengthJudge, asks_endpoint=False)
TEXT = "no judge"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with files of judges, of which one counts how often it runs, and two distributions."""
    forget_kinds()
    (tmp_path / "length.py").write_text(JUDGE, "utf-8")
    counted = (
        "from pathlib import Path\nwith Path(__file__ + '.ran').open('a') as ran:\n    "
        "ran.write('x')\n"
    )
    (tmp_path / "counted.py").write_text(f"{counted}1 / 0\n", "utf-8")
    (tmp_path / "counts.py").write_text(counted + JUDGE, "utf-8")
    points = dict.fromkeys(("by-length", "rubric", "both"), "length_plugin:JUDGE")
    points |= {"text": "length_plugin:TEXT", "lost": "no_such_module:J"}
    install(tmp_path, "length-plugin", {"judgegym.judges": points}, {"length_plugin": JUDGE})
    install(tmp_path, "other-plugin", {"judgegym.judges": {"both": "length_plugin:JUDGE"}})
    write_lines(tmp_path / "data.jsonl", [{"prompt": "Why?", "response": "Because."}])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("length_plugin", None)
    forget_kinds()


WRONG = {
    "haikus": "no judge 'haikus'; expected one of .*FILE.py:NAME",
    "none.py:JUDGE": "none.py cannot be read: No such file or directory",
    "counted.py:JUDGE": "counted.py: cannot be imported: counted.py, line 4: ZeroDivisionError: division by zero",
    "length.py:NOPE": "length.py has no NOPE; .*JudgeDefinition",
    "length.py:TEXT": "length.py:TEXT is of type str; expected a JudgeDefinition",
    "text": "length_plugin:TEXT of length-plugin 0.1 is of type str; expected a JudgeDefinition",
    "lost": "lost of length-plugin 0.1: cannot be imported: ModuleNotFoundError: No module named "
    "'no_such_module'",
    "both": "both: length-plugin 0.1 and other-plugin 0.1 .*uninstall",
}
PLACES = {
    "": "--judge (command line)",
    "judges": "--judges.b.judge",
    "reward": "--reward.p.judges.b.judge",
}


def _flags(place: str, judge: str) -> list[str]:
    """The judge, as a member of a jury, or as a member of a jury that is a part."""
    members = {"a": {"judge": "rubric"}, "b": {"judge": judge}}
    nested = {"judges": members, "reward": {"p": {"judge": "jury", "judges": members}}}
    if not place:
        return [f"--judge={judge}"]
    kind = {"judges": "jury", "reward": "composite"}[place]
    return [f"--judge={kind}", f"--{place}={json.dumps(nested[place])}"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("judge", WRONG)
def test_what_is_no_judge_is_one_line_with_its_place(judge: str, place: str, folder: Path) -> None:
    ended = score("data.jsonl", *_flags(place, judge), "--out", "scored.jsonl")
    assert (ended.code, ended.out) == (2, "")
    assert (
        re.match(f"{re.escape(PLACES[place])}: .*{WRONG[judge]}", ended.err)
        and len(ended.err.splitlines()) == 1
    )
    assert not (folder / "scored.run").exists()
    ran = folder / "counted.py.ran"
    assert not ran.exists() or ran.read_text() == "x"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"scale_min": 2}, "--judges.b.scale_min: .*judge=rubric"),
        ({"longes": 2}, r"--judges.b.longes: unknown setting .*did you mean longest\?"),
        ({"longest": 0}, "--judges.b.longest: input should be greater than or equal to 1"),
        (
            {"judge_digest": "sha256:0"},
            "--judges.b.judge_digest: length.py has another digest.* sha256:",
        ),
    ],
)
def test_a_wrong_setting_of_a_member_is_told_with_its_place(
    given: dict[str, object], said: str, folder: Path
) -> None:
    members = {"a": {"judge": "rule", "rule": "length"}, "b": {"judge": "length.py:JUDGE", **given}}
    ended = score(
        "data.jsonl",
        f"--judges={json.dumps(members)}",
        "--rule_hard_limit=9",
        "--out",
        "scored.jsonl",
    )
    assert ended.code == 2 and re.match(said, ended.err) and len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("judge", ["length.py:JUDGE", "by-length"])
def test_a_judge_without_a_model_needs_no_endpoint(judge: str, folder: Path) -> None:
    flags = (f"--judge={judge}", "--longest=16", "--write_report=False")
    score("data.jsonl", *flags, "--out", "scored.jsonl").successful()
    assert [row["judge/score"] for row in read_rows(folder / "scored.jsonl")] == [0.5]


def test_a_built_in_kind_keeps_its_name(folder: Path) -> None:
    with serving("[FEEDBACK] Fine. [SCORE] 5") as endpoint:
        url = f"--judge_base_url={endpoint.base_url}"
        score(
            "data.jsonl", "--judge=rubric", url, "--out", "scored.jsonl", "--write_report=False"
        ).successful()
        assert len(endpoint.requests) == 1


@pytest.mark.slow
def test_each_member_has_the_digest_of_its_own_file_also_where_a_run_is_repeated(
    folder: Path,
) -> None:
    judges = (
        '[{"judge": "length.py:JUDGE", "name": "a"}, {"judge": "counts.py:JUDGE", "name": "b"}]'
    )
    score(
        "data.jsonl", f"--judges={judges}", "--out", "one.jsonl", "--write_report=False"
    ).successful()
    config = f"--config={folder / 'one.run' / 'config.yaml'}"
    score("data.jsonl", config, "--out", "two.jsonl", "--write_report=False").successful()
    assert read_rows(folder / "one.jsonl") == read_rows(folder / "two.jsonl")
    (folder / "counts.py").write_text(f"{JUDGE}# changed\n", "utf-8")
    forget_kinds()
    ended = score("data.jsonl", config, "--out", "three.jsonl")
    assert ended.code == 2 and "--judges.b.judge_digest: counts.py has another digest" in ended.err


def test_a_run_is_not_resumed_with_another_version_of_the_package_of_its_judge(
    folder: Path,
) -> None:
    flags = ("data.jsonl", "--judge=by-length", "--out", "scored.jsonl", "--write_report=False")
    score(*flags).successful()
    assert "judge_package: length-plugin 0.1\n" in (
        folder / "scored.run" / "config.yaml"
    ).read_text("utf-8")
    metadata = next(folder.glob("length_plugin-*.dist-info")) / "METADATA"
    metadata.write_text(
        metadata.read_text("utf-8").replace("Version: 0.1", "Version: 0.2"), "utf-8"
    )
    forget_kinds()
    ended = score(*flags, "--resume")
    assert (
        ended.code == 2
        and "judge_package: 'length-plugin 0.1' then, 'length-plugin 0.2' now" in ended.err
    )


@pytest.mark.slow
def test_a_digest_is_that_of_one_file_and_no_other_judge_inherits_it(folder: Path) -> None:
    first, other = "length.py:JUDGE", "counts.py:JUDGE"
    digest = settings_from_keywords(AnyJudgeSettings, {"judge": first}).model_dump()["judge_digest"]
    served = {"judge": first, "judge_digest": digest, "mounts": {"other": {"judge": other}}}
    mounts = settings_from_keywords(RewardServerSettings, served).mounted_judges()
    assert (
        mounts[""].model_dump()["judge_digest"]
        == digest
        != mounts["other"].model_dump()["judge_digest"]
    )
    members = {"a": {"judge": first}, "b": {"judge": other}}
    jury = settings_from_keywords(
        AnyJudgeSettings, {"judge": "jury", "judge_digest": digest, "judges": members}
    )
    assert [part.settings.judge for part in jury.part_settings] == [first, other]


def test_a_gold_judge_is_noted_with_its_digest(folder: Path) -> None:
    settings = settings_from_keywords(MonitorSettings, {"gold_judge": {"judge": "length.py:JUDGE"}})
    assert str(settings.gold_judge["judge_digest"]).startswith("sha256:")


def test_a_training_run_is_not_resumed_with_another_file_of_its_gold_judge(folder: Path) -> None:
    def open_run(*flags: str) -> RunDirectory:
        words = ("--env.data_path_to_save_groups=groups.jsonl", *flags)
        settings = settings_of(PromptsEnv, *words, verb="process")
        return open_files(settings, "process", lambda run: run)[0]

    gold = '--env.gold_judge={"judge": "length.py:JUDGE"}'
    open_run().close()
    open_run(gold, "--resume").close()
    open_run(gold, "--resume").close()
    (folder / "length.py").write_text(f"{JUDGE}# changed\n", "utf-8")
    forget_kinds()
    with pytest.raises(
        RunDirectoryError,
        match=r"env\.gold_judge\.judge_digest: 'sha256:\w+' then, 'sha256:\w+' now",
    ):
        open_run(gold, "--resume")


def test_a_file_that_has_changed_since_it_ran_is_told_where_its_judge_is_opened_again(
    folder: Path,
) -> None:
    own = {"own": {"judge": "length.py:JUDGE"}}
    with RewardJudge(reward=own) as judge:
        assert judge.judge_sync("Why?", "So it is.").scores == [0.45]
    (folder / "length.py").write_text(f"{JUDGE}# changed\n", "utf-8")
    with (
        RewardJudge(reward=own) as judge,
        pytest.raises(SettingsError, match=r"length\.py:JUDGE has changed"),
    ):
        judge.judge_sync("Why?", "So it is.")


@pytest.mark.parametrize("judge", ["length.py:JUDGE", "by-length"])
async def test_settings_reach_another_process_with_their_judge(judge: str, folder: Path) -> None:
    settings = settings_from_keywords(AnyJudgeSettings, {"judge": judge, "longest": 18})
    pickled = pickle.dumps(settings)
    async with ChatClient(settings.chat_settings()) as client:
        forget_kinds()  # as another process knows none
        (result,) = await open_judge(pickle.loads(pickled), client).score(
            JudgeTask("Why?", ("So it is.",))
        )
    assert result.score == 0.5


async def test_a_process_with_another_file_is_no_part_of_the_run(folder: Path) -> None:
    settings = settings_from_keywords(AnyJudgeSettings, {"judge": "length.py:JUDGE"})
    pickled = pickle.dumps(settings)
    (folder / "length.py").write_text(f"{JUDGE}# changed\n", "utf-8")
    async with ChatClient(settings.chat_settings()) as client:
        forget_kinds()
        with pytest.raises(
            SettingsError, match=r"judge_digest: length\.py:JUDGE has another digest.* sha256:"
        ):
            open_judge(pickle.loads(pickled), client)
