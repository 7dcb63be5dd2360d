"""The doors that are commands: judges of data sets, of environments, of others' parts, and what tries a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from judgegym.cli.commands import main
from judgegym.engine.settings import BUNDLED_TOKENIZER
from judgegym.environments.prompts_environment import PromptsEnv
from judgegym_trials.attacks import command as attack
from judgegym_trials.audit import command as audit
from judgegym_trials.replay import command as replay
from tests.command import (
    ROOT,
    Ended,
    RunFiles,
    called,
    clean_environment,
    in_process,
    serving,
    write_lines,
)
from tests.conformance.doors.door import ROWS, Door, Scores, Visit, succeeded
from tests.conformance.doors.judges import QUESTIONS
from tests.core.datasets.scoring import read_rows, score
from tests.faults.bench import TrainerInMemory
from tests.trainer import ScriptedServer

_GROUP = 3
OWN_ENVIRONMENT = ROOT / "examples" / "own_environment" / "brief_environment.py"
_OF_TRIALS = {"audit": audit, "attack": attack, "replay": replay}


def judgegym(verb: str, *words: object) -> Ended:
    """`judgegym` in this process; the commands of judges on trial need not be installed."""
    argv, trial = [str(word) for word in words], _OF_TRIALS.get(verb)
    command = (
        partial(main, [verb, *argv])
        if trial is None
        else partial(trial.main, argv, prog=f"judgegym {verb}")
    )
    return called(command, clean_environment())


def scored(visit: Visit, *flags: object, out: str = "scored.jsonl") -> Scores:
    """`judgegym score` with these flags."""
    succeeded(
        score(
            visit.data(),
            "--out",
            visit.folder / out,
            "--write_report=False",
            *visit.place(),
            *flags,
        )
    )
    return [row["judge/score"] for row in read_rows(visit.folder / out)]


def _score(visit: Visit) -> Scores:
    return scored(visit, *visit.flags())


def _anchors(visit: Visit) -> Scores:
    """The fixed rows of `--anchors`, which are judged beside those of a run."""
    anchors = write_lines(visit.folder / "anchors.jsonl", ROWS)
    scored(visit, *visit.flags(), f"--anchors={anchors}")
    (state,) = read_rows(visit.folder / "anchors.jsonl.state.jsonl")
    looks: Any = state["scores"]
    assert all(len(of_anchor) == 3 for of_anchor in looks.values())
    return [looks[row["uid"]][0] for row in ROWS]


def _member(visit: Visit, setting: str, value: object, *flags: str) -> Scores:
    """A judge that is made of judges."""
    return scored(visit, *visit.flags(**{setting: value}), *flags)


def _part(visit: Visit) -> Scores:
    parts = {
        "grade": {**visit.settings, "weight": 2},
        "length": {"judge": "rule", "rule": "length", "weight": 0},
    }
    return _member(visit, "reward", parts, "--judge=composite", "--rule_hard_limit=90")


def _juror(visit: Visit) -> Scores:
    return _member(visit, "judges", {"own": visit.settings, "other": {"judge": "rubric"}})


def _cheap(visit: Visit) -> Scores:
    cascade = {"cheap": visit.settings, "strong": {"judge": "rubric"}}
    return _member(visit, "cascade", cascade, "--cascade_threshold=0.5", "--cascade_recheck=0")


def _strong(visit: Visit) -> Scores:
    return _member(
        visit,
        "cascade",
        {"cheap": {"judge": "rubric"}, "strong": visit.settings},
        "--cascade_share=0",
    )


def _steps(visit: Visit) -> Scores:
    return _member(visit, "steps_judge", visit.settings, "--judge=steps")


def _nested(visit: Visit) -> Scores:
    """A member of a jury that is a part of a reward."""
    jury = {"judge": "jury", "judges": {"own": visit.settings, "other": {"judge": "rubric"}}}
    return _member(visit, "reward", {"all": jury}, "--judge=composite")


def prompts_flags(visit: Visit) -> list[str]:
    """Flags of the environment `prompts` for the questions, which the policy answers as the rows say."""
    data = write_lines(
        visit.folder / "prompts.jsonl", [{"prompt": question} for question in QUESTIONS]
    )
    names = ("eval_dataset", "train_dataset")
    return [
        *(f"--env.{name}={data}" for name in names),
        "--env.min_response_length=0",
        *visit.place("--env."),
    ]


def _evaluate(visit: Visit) -> Scores:
    run = visit.folder / "run"
    flags = [*prompts_flags(visit), f"--env.data_dir_to_save_evals={run}", *visit.flags("--env.")]
    succeeded(
        in_process(
            "evaluate", *(flag for flag in flags if "train_" not in flag), env_type=PromptsEnv
        )
    )
    return [sample["score"] for sample in RunFiles(run).samples]


def group_flags(visit: Visit) -> list[str]:
    """Flags of `process` and `serve`."""
    usual = [
        flag for flag in prompts_flags(visit) if "eval_" not in flag and "min_response" not in flag
    ]
    more = (
        f"group_size={_GROUP}",
        f"tokenizer_name={BUNDLED_TOKENIZER}",
        "ensure_scores_are_not_same=False",
    )
    return [*usual, *(f"--env.{flag}" for flag in more)]


def _process(visit: Visit, *flags: str) -> Scores:
    path = visit.folder / "groups.jsonl"
    where = [f"--env.data_path_to_save_groups={path}", f"--env.total_steps={len(QUESTIONS)}"]
    judge = flags or visit.flags("--env.")
    succeeded(in_process("process", *group_flags(visit), *where, *judge, env_type=PromptsEnv))
    return _of_groups(read_rows(path))


def _of_groups(groups: Sequence[Mapping[str, Any]]) -> Scores:
    """The score of each question's completions, which all have the same."""
    scores: dict[str, set[float]] = {}
    for group in groups:
        for messages, value in zip(group["messages"], group["scores"], strict=True):
            scores.setdefault(messages[0]["content"], set()).add(value)
    return [value for question in QUESTIONS for value in scores[question]]


def _serve(visit: Visit) -> Scores:
    trainer = TrainerInMemory(len(QUESTIONS))
    with serving(ScriptedServer(trainer)) as api:  # type: ignore[arg-type]  # it has the same methods
        url = api.base_url.removesuffix("/v1")
        more = (
            "steps_per_eval=-1",
            "total_steps=1",
            "max_batches_offpolicy=1",
            "max_num_workers=2",
        )
        where = [
            f"--env.rollout_server_url={url}",
            f"--env.data_path_to_save_groups={visit.folder / 'groups.jsonl'}",
        ]
        flags = [
            *group_flags(visit),
            *where,
            *(f"--env.{flag}" for flag in more),
            *visit.flags("--env."),
        ]
        succeeded(in_process("serve", *flags, env_type=PromptsEnv))
    scores = {value for group in trainer.groups for value in group["scores"]}
    return sorted(scores, reverse=True)


def _gold(visit: Visit) -> Scores:
    """The gold judge of a training, whose scores stand beside those of the judge by a rubric."""
    flags = [
        *visit.flags("--env.", gold_judge=visit.of_gold()),
        "--env.gold_share=1",
        "--env.monitor_every=1",
    ]
    _process(visit, "--env.judge=rubric", *flags)
    return scores_of_gold(visit.folder / "groups.run")


def scores_of_gold(run: Path) -> Scores:
    """The scores of a gold judge, the best first."""
    found: list[Any] = [
        line["gold"]["scores"] for line in read_rows(run / "monitor.jsonl") if "gold" in line
    ]
    return sorted({score for scores in found for score in scores.values()}, reverse=True)


def _own_environment(visit: Visit) -> Scores:
    """The environment of the handbook, whose judge the user chooses."""
    run = visit.folder / "run"
    data = write_lines(
        visit.folder / "prompts.jsonl", [{"prompt": question} for question in QUESTIONS]
    )
    where = [
        f"--env.dataset={data}",
        f"--env.data_dir_to_save_evals={run}",
        "--env.min_response_length=0",
    ]
    flags = [*where, "--env.write_report=False", *visit.place("--env."), *visit.flags("--env.")]
    succeeded(judgegym("evaluate", OWN_ENVIRONMENT, *flags))
    return [sample["score"] for sample in RunFiles(run).samples]


def _judged_of(folder: Path, names: Sequence[str]) -> Scores:
    """The scores of derived rows with these ids."""
    judged: dict[Any, Any] = {
        row["uid"]: row["judge/score"] for row in read_rows(folder / "judged.jsonl")
    }
    return [judged[name][0] if isinstance(judged[name], list) else judged[name] for name in names]


def _audit(visit: Visit) -> Scores:
    data = visit.data([{**row, "gold": 1} for row in ROWS])
    succeeded(
        judgegym(
            "audit",
            data,
            "--out",
            visit.folder / "audit",
            *visit.place(),
            *visit.flags(),
            "--repeats=0",
        )
    )
    return _judged_of(visit.folder / "audit" / "judge", ["0/0", "0/1"])


def _attack(visit: Visit) -> Scores:
    out = visit.folder / "attack"
    words = [
        visit.data(),
        "--out",
        out,
        *visit.place(),
        *visit.flags(),
        "--only=verdict_of_judge",
        "--max_success=1",
    ]
    succeeded(judgegym("attack", *words))
    return _judged_of(out, ["twin/1", "twin/2"])


def _replay(visit: Visit) -> Scores:
    """A jury of a recorded run of the judge and one of a judge by a rubric."""
    scored(visit, *visit.flags(), out="own.jsonl")
    scored(visit, "--judge=rubric", out="rubric.jsonl")
    runs = [f"{name}={visit.folder / name}.run" for name in ("own", "rubric")]
    out = visit.folder / "replayed.jsonl"
    asked = 0 if visit.endpoint is None else len(visit.endpoint.requests)
    succeeded(judgegym("replay", *runs, "--jury=mean", "--out", out))
    assert visit.endpoint is None or len(visit.endpoint.requests) == asked
    return [row["judge/score"] for row in read_rows(out)]


COMMANDS = (
    Door("score", _score),
    Door("anchors", _anchors),
    Door("composite-part", _part),
    Door("jury-member", _juror),
    Door("cascade-cheap", _cheap),
    Door("cascade-strong", _strong),
    Door("steps", _steps),
    Door("member-of-a-part", _nested, is_dear=True),
    Door("evaluate-prompts", _evaluate),
    Door("process-prompts", _process),
    Door("serve-prompts", _serve, is_dear=True),
    Door("own-environment", _own_environment),
    Door("gold-judge", _gold),
    Door("audit", _audit),
    Door("attack", _attack),
    Door("replay", _replay, is_dear=True),
)
