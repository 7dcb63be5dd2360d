"""A run that was cut off is taken up: it ends as one that nobody disturbed, and nothing is paid for twice."""

from __future__ import annotations

import json
import re
import shlex
import signal
from collections import Counter
from operator import itemgetter

import pytest
import yaml

from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.judges.config.composed import expand_choices
from tests.command import Ended, RunFiles
from tests.conformance.lab import (
    DOWN,
    HANG,
    Disturbance,
    Lab,
    Undisturbed,
    row_of_sample,
    slow_with_several_models,
)
from tests.conformance.subjects import JUDGED_BY_MORE_THAN_THE_QUESTION, uids
from tests.scripted import Reply

FINISHED = {"row-0", "row-2", "row-5"}
ANSWERED = FINISHED | {"row-1", "row-4"}
"""Rows that the policy answers ahead of the interruption, where a judge is to judge them."""
HALF_JUDGED = "row-1"
TORN = b'{"uid":"row-1","category":null,"quest'
"""The last line of a process that was killed."""


def interrupted(lab: Lab, undisturbed: Undisturbed, number: signal.Signals) -> Ended:
    """Evaluate as a process until exactly the rows of `FINISHED` are on disk; then a signal.

    Of several requests about `HALF_JUDGED` the judge has answered one. All that was answered is in
    the ledger by then.
    """
    halves = iter([None] if undisturbed.judge[HALF_JUDGED] > 1 else [])
    if lab.subject.has_judge:
        lab.policy.disturb(lambda uid: None if uid in ANSWERED else HANG)
        lab.judge.disturb(
            lambda uid: (
                None if uid in FINISHED else next(halves, HANG) if uid == HALF_JUDGED else HANG
            )
        )
    else:
        lab.policy.disturb(lambda uid: None if uid in FINISHED else HANG)
    samples = undisturbed.files.samples
    finishing = {sample["uid"] for sample in samples if row_of_sample(sample) in FINISHED}
    with lab.started(*lab.argv()) as started:
        started.until(lambda: uids_in(lab.files()) == finishing, "the first rows on disk")
        started.until(lambda: lab.policy.asked == set(uids()), "further rows under way")
        if lab.subject.has_judge:
            started.until(
                lambda: all_are_shown(lab, undisturbed), "further answers before the judge"
            )
        answered = sum((lab.policy.answered + lab.judge.answered).values())
        started.until(
            lambda: len(list(read_calls(lab.files().path))) == answered, "all answers in the ledger"
        )
        started.send(number)
        return lab.checked(started.ended())


def uids_in(files: RunFiles) -> set[str]:
    """The samples on disk; none while a line is half written."""
    path = files.path / "samples.jsonl"
    lines = path.read_bytes() if path.exists() else b""
    return (
        {json.loads(line)["uid"] for line in lines.splitlines()} if lines.endswith(b"\n") else set()
    )


def all_are_shown(lab: Lab, undisturbed: Undisturbed) -> bool:
    """Whether the policy has said all of `ANSWERED`, and the judge is shown all of it."""
    texts = [text for uid in ANSWERED for text in lab.policy.texts(uid)]
    return len(texts) == sum(undisturbed.policy[uid] for uid in ANSWERED) and all(
        map(lab.judge.was_shown, texts)
    )


@slow_with_several_models
@pytest.mark.slow(
    "rubric_checklist-judge"
)  # 0.3 s of CPU; other roles and environments are in the gate
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name
)
def test_interrupted_run_resumes_to_what_an_undisturbed_run_gives(
    lab: Lab, undisturbed: Undisturbed, number: signal.Signals
) -> None:
    ended = interrupted(lab, undisturbed, number)
    kept = sorted(lab.files().samples, key=itemgetter("uid"))
    policy_answered, judge_answered = lab.policy.answered, lab.judge.answered
    requests = lab.requests
    in_flight = requests - sum((policy_answered + judge_answered).values())
    assert {row_of_sample(sample) for sample in kept} == FINISHED
    assert not (lab.files().path / "metrics.json").exists()
    if number == signal.SIGKILL:
        assert ended.code == -number
        command = [*lab.argv(), "--resume"]
        with (lab.files().path / "samples.jsonl").open("ab") as torn:
            torn.write(TORN)
    else:
        assert ended.code == 128 + number
        _, script, *command = shlex.split(ended.err.rstrip().splitlines()[-1])
        assert (script, command[-1]) == (str(lab.subject.script), "--resume")

    lab.restore()
    again = lab.command(*command).successful()
    if number == signal.SIGKILL:
        kept_aside = lab.files().path / "samples.jsonl.damaged"
        assert kept_aside.read_bytes().endswith(TORN)
        assert f"1 damaged line skipped (kept in {kept_aside.name})" in again.err
        kept_aside.unlink()
    undisturbed.same_results(lab.files())
    finished = {sample["uid"] for sample in kept}
    samples = sorted(lab.files().samples, key=itemgetter("uid"))
    assert [sample for sample in samples if sample["uid"] in finished] == kept, (
        "down to their timings"
    )
    assert policy_answered + lab.policy.answered == undisturbed.policy, (
        "no answer was asked for twice"
    )
    assert judge_answered[HALF_JUDGED] == (1 if undisturbed.judge[HALF_JUDGED] > 1 else 0)
    assert judge_answered + lab.judge.answered == undisturbed.judge, "no answer was asked for twice"
    assert re.search(rf"in flight\D*\b{in_flight}\b", again.err)
    assert not (lab.files().path / "calls.jsonl").exists()
    names = Counter((call.row, call.component, call.vote) for call in read_calls(lab.files().path))
    assert names == Counter(
        (call.row, call.component, call.vote) for call in read_calls(undisturbed.files.path)
    )


@slow_with_several_models
def test_finished_run_resumes_without_a_request(lab: Lab) -> None:
    files = lab.finished()
    samples = (files.path / "samples.jsonl").read_bytes()
    lab.restore()
    lab.evaluate("--resume").successful()
    assert lab.requests == 0
    assert (files.path / "samples.jsonl").read_bytes() == samples


@slow_with_several_models
def test_failed_rows_are_asked_again_and_no_others(lab: Lab, undisturbed: Undisturbed) -> None:
    """The policy fails at one row and the judge at another, whose answer is paid for."""
    lab.policy.disturb(lambda uid: DOWN if uid == "row-1" else None)
    lab.judge.disturb(lambda uid: DOWN if uid == "row-3" else None)
    failed = {"row-1", "row-3"} if lab.subject.has_judge else {"row-1"}
    first = lab.evaluate()
    assert first.code == 1
    assert {row_of_sample(failure) for failure in lab.files().failures} == failed
    answered, judged = lab.policy.answered, lab.judge.answered

    lab.restore()
    lab.evaluate("--resume").successful()
    # Of several models, a failed call is a cell's and stays in the count.
    undisturbed.same_results(lab.files(), ignoring=["policy_"] if lab.subject.compares else [])
    assert answered + lab.policy.answered == undisturbed.policy
    assert judged + lab.judge.answered == undisturbed.judge
    assert lab.judge.asked == (failed if lab.subject.has_judge else set())


@slow_with_several_models
def test_one_failed_call_of_a_row_is_repeated_alone(lab: Lab, undisturbed: Undisturbed) -> None:
    """Of the ratings, votes, games and conversations of a row, those that were answered are not asked for again."""
    sides = {"policy": lab.policy, "judge": lab.judge}

    def failing_once() -> Disturbance:
        asked: Counter[str] = Counter()

        def instead(uid: str) -> Reply | None:
            asked[uid] += 1
            return DOWN if asked[uid] == 2 and uid in ("row-3", "row-4") else None

        return instead

    for side in sides.values():
        side.disturb(failing_once())
    lab.evaluate()
    answered = {name: side.answered for name, side in sides.items()}
    for side in sides.values():
        side.restore()
    lab.evaluate("--resume").successful()
    whole = {"policy": undisturbed.policy, "judge": undisturbed.judge}
    for name, side in sides.items():
        assert answered[name] + side.answered == whole[name], (
            f"no answer of the {name} was asked for twice"
        )
        assert len(side.endpoint.requests) == sum((whole[name] - answered[name]).values()), (
            "nor anything else"
        )
    scores = [(sample["uid"], sample["score"]) for sample in lab.files().samples]
    assert scores == [(sample["uid"], sample["score"]) for sample in undisturbed.files.samples]


@slow_with_several_models
def test_other_settings_do_not_resume_a_run(lab: Lab) -> None:
    files = lab.finished()
    before = {path.name: path.read_bytes() for path in files.path.iterdir() if path.name != ".lock"}
    lab.restore()
    for flag, setting in (("--env.seed=7", "env.seed"), ("--limit=2", "limit")):
        ended = lab.evaluate(flag, "--resume")
        assert ended.code == 2
        assert setting in ended.err and str(files.path) in ended.err
    assert lab.requests == 0
    assert {
        path.name: path.read_bytes() for path in files.path.iterdir() if path.name != ".lock"
    } == before


@slow_with_several_models
def test_run_of_before_there_was_a_setting_resumes(lab: Lab) -> None:
    """What `config.yaml` does not say was as it is by default; a setting that was another is still told."""
    files = lab.finished()
    config = lab.config()
    defaults = expand_choices(lab.subject.env_type.config_type)().model_dump(mode="json")
    newer = {name for name, value in config["env"].items() if value == defaults[name]}
    assert len(newer) > 10
    config["env"] = {name: value for name, value in config["env"].items() if name not in newer}
    (files.path / "config.yaml").write_text(yaml.safe_dump(config))
    lab.restore()
    other = lab.evaluate("--env.eval_max_tokens=7", "--resume")
    assert (
        other.code == 2
        and f"env.eval_max_tokens: {defaults['eval_max_tokens']} then, 7 now" in other.err
    )
    lab.evaluate("--resume").successful()
    assert lab.requests == 0
    assert newer <= lab.config()["env"].keys(), "the run says it from now on"


def test_run_directory_in_use_is_not_written_over(lab: Lab) -> None:
    files = lab.finished()
    samples = (files.path / "samples.jsonl").read_bytes()
    again = lab.evaluate()
    assert again.code == 2
    assert "--resume" in again.err
    assert (files.path / "samples.jsonl").read_bytes() == samples


@pytest.mark.slow("arena_hard-candidates", "mt_bench", "self_critique")
@pytest.mark.parametrize(
    "subject", JUDGED_BY_MORE_THAN_THE_QUESTION, indirect=True, ids=lambda each: each.title
)
def test_changed_rows_are_judged_again_and_said(lab: Lab) -> None:
    """A baseline, reference, rubric or gold label that is another one is noticed, though the question is the same."""
    files = lab.finished()
    before = files.without_run()
    lab.restore()
    lab.subject.data(lab.path, changed={"row-2"})
    again = lab.evaluate("--resume").successful()
    assert "judged again: " in again.err
    assert lab.policy.asked | lab.judge.asked <= {"row-2"}
    assert files.without_run() == lab.finished(run="fresh").without_run() != before
