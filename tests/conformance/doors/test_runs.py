"""What reads the runs of a judge of one's own: reports, comparisons, labels, plans, and runs that go on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from judgegym.environments.prompts_environment import PromptsEnv
from judgegym.llm.errors import SettingsError
from judgegym.reports.results.run import SavedRun
from judgegym_trainers.scores.sources import JudgeSource
from judgegym_trials.labelling.questions import make_question, read_headline_values
from tests.command import RunFiles, in_process, serving
from tests.conformance.doors.commands import group_flags, judgegym, prompts_flags, scored
from tests.conformance.doors.door import ROWS, Visit
from tests.conformance.doors.judges import (
    JUDGES,
    OTHER_PROMPT_FILE,
    PROMPT_FILES,
    PYTHON_JUDGES,
    DoorJudge,
    forget_kinds,
)
from tests.core.datasets.scoring import score
from tests.plans import read_plan

each_judge = pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.name)
each_prompt_file = pytest.mark.parametrize("judge", PROMPT_FILES, ids=lambda judge: judge.name)


@pytest.fixture
def visit(judge: DoorJudge, tmp_path: Path) -> Iterator[Visit]:
    """A visit with the judge."""
    with serving(judge.script()) as endpoint:
        yield Visit(tmp_path, endpoint, {"judge": judge.written(tmp_path / "judge")})


def requests(visit: Visit) -> int:
    assert visit.endpoint is not None
    return len(visit.endpoint.requests)


@pytest.mark.slow
@each_judge
def test_a_run_goes_on_without_a_call_and_not_with_another_file(
    judge: DoorJudge, visit: Visit
) -> None:
    first = scored(visit, *visit.flags())
    files, count = RunFiles(visit.folder / "scored.run"), requests(visit)
    before = files.without_run()
    files.interrupt(files.samples[0]["uid"].partition(":")[0])
    assert scored(visit, *visit.flags(), "--resume") == first
    assert requests(visit) == count and files.without_run() == before
    if not judge.kept_in:
        return
    judge.rewritten(visit.folder / "judge")
    ended = score(
        visit.data(),
        "--out",
        visit.folder / "scored.jsonl",
        *visit.place(),
        *visit.flags(),
        "--resume",
    )
    assert ended.code == 2 and judge.kept_in in ended.err and requests(visit) == count


@each_judge
def test_a_plan_counts_the_calls_of_the_run(judge: DoorJudge, visit: Visit) -> None:
    planned = score(visit.data(), "--plan", *visit.place(), *visit.flags())
    assert planned.code == 0, planned.err
    assert requests(visit) == 0
    scored(visit, *visit.flags())
    assert read_plan(planned.out).calls.usual == requests(visit)


@pytest.mark.slow
@each_judge
@pytest.mark.parametrize("verb", ["evaluate", "process"])
def test_a_plan_counts_the_calls_of_an_environment(
    judge: DoorJudge, verb: str, visit: Visit
) -> None:
    is_run = verb == "evaluate"
    flags = (
        [flag for flag in prompts_flags(visit) if "train_" not in flag]
        if is_run
        else group_flags(visit)
    )
    place = "data_dir_to_save_evals=run" if is_run else "data_path_to_save_groups=groups.jsonl"
    flags += [f"--env.{place.replace('=', f'={visit.folder}/')}", *visit.flags("--env.")]
    flags += [] if is_run else ["--env.total_steps=2"]
    planned = in_process(verb, *flags, "--plan", env_type=PromptsEnv).successful()
    assert requests(visit) == 0
    in_process(verb, *flags, env_type=PromptsEnv).successful()
    assert read_plan(planned.out).calls.usual == requests(visit)


@pytest.mark.parametrize(
    "judge", [judge for judge in JUDGES if judge.labels], ids=lambda judge: judge.name
)
def test_labellers_are_asked_on_its_scale(judge: DoorJudge, visit: Visit) -> None:
    scored(visit, *visit.flags())
    run = SavedRun.open(visit.folder / "scored.jsonl")
    (part,) = make_question(run, read_headline_values(run)[0].values()).parts
    words = {option.words: option.value for option in part.options}
    assert words == judge.labels


@pytest.mark.slow
@each_judge
def test_reports_name_it_and_comparisons_tell_another_prompt(
    judge: DoorJudge, visit: Visit
) -> None:
    scored(visit, *visit.flags(), out="one.jsonl")
    page = judgegym("report", visit.folder / "one.jsonl").successful()
    assert "report.html" in page.said and (visit.folder / "one.run" / "report.html").exists()
    judge.rewritten(visit.folder / "judge")
    scored(visit, *visit.flags(), out="two.jsonl")
    ended = judgegym("compare", visit.folder / "one.jsonl", visit.folder / "two.jsonl")
    assert ("prompt" if judge in PROMPT_FILES else judge.kept_in) in ended.said, ended.said


@pytest.mark.slow
@each_judge
def test_gold_labels_are_on_its_scale(judge: DoorJudge, visit: Visit) -> None:
    data = visit.data([{**row, "gold": label} for row, label in zip(ROWS, judge.gold, strict=True)])
    ended = score(
        data,
        "--out",
        visit.folder / "gold.jsonl",
        *visit.place(),
        *visit.flags(),
        "--gold_column=gold",
    )
    assert ended.code == 0, ended.err
    samples = RunFiles(visit.folder / "gold.run").samples
    assert [label["agrees"] for sample in samples for label in sample["gold"]] == [True, True]


@pytest.mark.slow
@pytest.mark.parametrize("judge", PROMPT_FILES[1:], ids=lambda judge: judge.name)
def test_a_gold_label_beyond_its_scale_is_refused(judge: DoorJudge, visit: Visit) -> None:
    data = visit.data([{**row, "gold": 7} for row in ROWS])
    ended = score(
        data,
        "--out",
        visit.folder / "beyond.jsonl",
        *visit.place(),
        *visit.flags(),
        "--gold_column=gold",
    )
    assert ended.code == 2 and "scale, 1 to 5 (the prompt file), not 7.0" in ended.err


@pytest.mark.slow
@pytest.mark.parametrize("judge", PYTHON_JUDGES[:1], ids=lambda judge: judge.name)
def test_reading_a_run_runs_no_file_that_it_names(judge: DoorJudge, visit: Visit) -> None:
    for name, flags in (("one", visit.flags()), ("two", [*visit.flags(), "--hat_size=8"])):
        scored(visit, *flags, out=f"{name}.jsonl")
    forget_kinds()
    (visit.folder / "judge" / "hats.py").write_text(
        "raise SystemExit('it has run')\n", encoding="utf-8"
    )
    one, two = visit.folder / "one.run", visit.folder / "two.run"
    judgegym("report", one).successful()
    assert "hat_size: A 7; B 8" in judgegym("compare", one, two, "--across_protocols").said
    assert read_headline_values(SavedRun.open(one))
    ended = judgegym(
        "replay", f"a={one}", f"b={two}", "--jury=mean", "--out", visit.folder / "replayed.jsonl"
    )
    assert ended.code == 2 and f"{one}: a replay never" in ended.err


@each_prompt_file
@pytest.mark.parametrize(
    ("flag", "in_file"),
    [("judge_prompt", ("judge",)), ("judge", ("judge_prompt",)), ("judge", ("judge",))],
)
def test_the_command_line_beats_a_file_across_both_names(
    judge: DoorJudge, flag: str, in_file: tuple[str, ...], visit: Visit
) -> None:
    other, config = visit.folder / "other.yaml", visit.folder / "settings.yaml"
    other.write_text(OTHER_PROMPT_FILE, "utf-8")
    config.write_text(
        json.dumps({"judge": "prompt", **dict.fromkeys(in_file, str(other))}), "utf-8"
    )
    assert scored(visit, f"--config={config}", f"--{flag}={visit.settings['judge']}") == [1.0, 0.0]


@each_prompt_file
def test_both_names_in_one_place_are_an_error(judge: DoorJudge, visit: Visit) -> None:
    flags = [*visit.flags(), f"--judge_prompt={visit.settings['judge']}"]
    ended = score(visit.data(), "--out", visit.folder / "both.jsonl", *flags)
    refusal = rf"judge_prompt: .* file {re.escape(visit.settings['judge'])}; expected one"
    assert ended.code == 2 and re.search(f"--{refusal}", ended.err)
    with pytest.raises(SettingsError, match=refusal):
        JudgeSource(judge={**visit.settings, "judge_prompt": visit.settings["judge"]}).make_scorer()


@pytest.mark.slow
@each_prompt_file
def test_a_cascade_is_chosen_from_its_run_and_judges_without_its_file(
    judge: DoorJudge, visit: Visit
) -> None:
    many = [{**row, "prompt": f"{row['prompt']} {number}"} for number in range(30) for row in ROWS]
    data, preset = visit.data(many), visit.folder / "cascade.yaml"
    for name, flags in (("own", visit.flags()), ("rubric", ["--judge=rubric"])):
        score(data, "--out", visit.folder / f"{name}.jsonl", *visit.place(), *flags).successful()
    runs = [f"{name}={visit.folder / name}.run" for name in ("own", "rubric")]
    judgegym(
        "replay", *runs, "--choose", "--keep=0.8", "--certainty=0.8", "--out", preset
    ).successful()
    for name in judge.files:
        (visit.folder / "judge" / name).unlink()
    assert scored(visit, f"--config={preset}", "--cascade_recheck=0", out="chosen.jsonl") == [
        1.0,
        0.0,
    ]
    assert judge.marker in str(visit.endpoint.bodies[-1] if visit.endpoint else "")
