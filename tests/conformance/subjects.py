"""What is under test: each environment, in each of its roles, with rows of its own and settings that ask for much.

A new environment joins the suite with an entry here: everything else is the same for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from examples.own_environment.constitution_environment import ConstitutionEnv
from judgegym.engine.settings.group_judge import GroupJudgeSettings
from judgegym.environments.aspect_critique_environment import AspectCritiqueEnv
from judgegym.environments.base import JudgedEnv
from judgegym.environments.prompts_environment import PromptsEnv
from judgegym.environments.rubric_absolute_environment import RubricAbsoluteEnv
from judgegym.environments.rubric_checklist_environment import RubricChecklistEnv
from judgegym.eval_environments.arena.candidates_environment import ArenaCandidatesEnv
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.eval_environments.mt_bench_environment import MTBenchEnv
from judgegym.eval_environments.pairwise_judgement_environment import PairwiseJudgementEnv
from judgegym.eval_environments.self_critique_environment import SelfCritiqueEnv
from tests.command import ROOT, write_lines

Verb = Literal["evaluate", "serve", "process"]
Row = dict[str, Any]

ROWS = 6
POLICY, JUDGE = "offline-policy", "offline-judge"
"""Model names of the scripted endpoints: those that `--offline` uses, whose answers depend on the name."""
POLICY_KEY, JUDGE_KEY = "POLICY_KEY", "JUDGE_KEY"
"""Environment variables that hold the endpoints' API keys."""
KEYS = {POLICY_KEY: "sk-secret-of-the-policy-0123", JUDGE_KEY: "sk-secret-of-the-judge-0123"}


@dataclass(frozen=True, eq=False)
class Subject:
    """An environment in one of its roles.

    Attributes:
        title: in the tests' names.
        env_type: the environment.
        script: its file.
        row: a row by its id, which stands in the row's question.
        datasets: the settings that name the rows, each with what makes its rows of those of `row`.
        judged_anew: fields that make another judgment of a row, whose question stays.
        role: the flag that gives it its role, if it has several.
        flags: settings for the rows of `row`; some lead to more calls than the defaults do. Where
            candidates are compared, for `evaluate` alone.
        has_judge: there is a judge beside the policy.
        compares: in evaluations several candidates answer each row.
        evaluated_by: the class that evaluates, if it is another one.
        turns: how often the policy speaks in the conversation of each row.
    """

    title: str
    env_type: type[JudgedEnv[Any, Any, Any]]
    script: Path
    row: Callable[[str], Row]
    datasets: dict[str, Callable[[Row], Row]]
    judged_anew: Row
    role: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    has_judge: bool = True
    compares: bool = False
    evaluated_by: type[JudgedEnv[Any, Any, Any]] | None = None
    turns: int = 1

    def data(self, path: Path, *, changed: Collection[str] = ()) -> list[str]:
        """Write the rows into a directory, some of them judged anew, and give the flags that name them."""
        rows = [{**self.row(uid), **(self.judged_anew if uid in changed else {})} for uid in uids()]
        return [
            f"--env.{name}={write_lines(path / f'{name}.jsonl', [made(row) for row in rows])}"
            for name, made in self.datasets.items()
        ]

    def endpoints(self, verb: Verb, policy_url: str, judge_url: str) -> list[str]:
        """The flags that name the endpoints."""
        names = [f"{POLICY}-{number}" for number in (1, 2, 3)]
        candidates = [
            {"name": name, "base_url": policy_url, "api_key_env": POLICY_KEY} for name in names
        ]
        if self.judge_each_other and verb == "evaluate":
            judges = [
                {"name": name, "base_url": judge_url, "api_key_env": JUDGE_KEY} for name in names
            ]
            return [
                f"--env.candidates={json.dumps(candidates)}",
                f"--env.judges={json.dumps(judges)}",
            ]
        policy = {"base_url": policy_url, "model_name": POLICY, "api_key_env": POLICY_KEY}
        judge = (
            {"base_url": judge_url, "model_name": JUDGE, "api_key_env": JUDGE_KEY}
            if self.has_judge
            else {}
        )
        judging = [f"--env.judge_{name}={value}" for name, value in judge.items()]
        if self.compares and verb == "evaluate":
            return [f"--env.candidates={json.dumps(candidates)}", *judging]
        return [*(f"--openai.{name}={value}" for name, value in policy.items()), *judging]

    def flags_of(self, verb: Verb) -> tuple[str, ...]:
        """The `flags` that a verb reads."""
        return self.flags if verb == "evaluate" or not self.compares else ()

    @property
    def headline(self) -> tuple[str, str]:
        """The headline of its evaluations, and what it is called."""
        return (self.evaluated_by or self.env_type).spec.headline

    @property
    def judge_each_other(self) -> bool:
        """Whether candidates judge candidates."""
        return self.env_type is SelfCritiqueEnv

    def limits(self, count: int) -> list[str]:
        """The flags that let so many requests be under way at once; of several models, so many rows."""
        return [
            f"--openai.num_requests_for_eval={count}",
            f"--env.judge_max_concurrency={count}",
            *([f"--env.rows_at_once={count}"] if self.judge_each_other else []),
        ]


def uids() -> list[str]:
    """The rows' ids, in their order."""
    return [f"row-{number}" for number in range(ROWS)]


def _same(row: Row) -> Row:
    return row


def _arena(uid: str) -> Row:
    return {
        "uid": uid,
        "prompt": f"How would you explain {uid} to a child?",
        "category": "math" if uid > "row-2" else "coding",
        "answer": f"There is {uid}, and it is simple: you look at it for a while.",
    }


def _turns(uid: str) -> Row:
    """A question of two turns, and a reference answer to each."""
    return {
        "question_id": uid,
        "category": "math" if uid > "row-2" else "coding",
        "turns": [
            f"How would you explain {uid} to a child?",
            "Now explain it to another child, in one sentence.",
        ],
        "reference": [f"There is {uid}, and you look at it for a while.", "You look at it."],
    }


def _pairwise(uid: str) -> Row:
    """Rows of which the stand-in gets some wrong; one of them has two right answers."""
    good = [f"Exactly {place}: {uid} is explained to a child by an example." for place in range(2)]
    bad = [f"I do not know {place}." for place in range(3)]
    correct, wrong = (good, bad[:2]) if uid == "row-4" else (good[:1], bad)
    if uid in ("row-1", "row-3"):
        correct, wrong = wrong[:1], [*correct, *wrong[1:]]
    prompt = f"How would you explain {uid} to a child?"
    return {
        "id": uid,
        "prompt": prompt,
        "chosen": correct,
        "rejected": wrong,
        "subset": "Ties" if uid == "row-4" else "Math",
    }


def _preference(row: Row) -> Row:
    return {
        "id": row["id"],
        "prompt": row["prompt"],
        "chosen": row["chosen"][0],
        "rejected": row["rejected"][0],
    }


def _question(uid: str) -> Row:
    return {
        "uid": uid,
        "question": f"How would you explain {uid} to a child?",
        "category": "explaining",
    }


def _answered(uid: str) -> Row:
    verdicts = {"correctness": int(uid > "row-2"), "conciseness": 1}
    return {
        **_question(uid),
        "answer": f"You explain {uid} to a child by an example.",
        "verdicts": verdicts,
    }


def _instruction(uid: str) -> Row:
    return {
        "uid": uid,
        "instruction": f"Explain {uid} to a child.",
        "rubric": "Does a child understand it?",
        "reference_answer": f"There is {uid}, a child, and an example that explains it.",
    }


def _labelled(uid: str) -> Row:
    return {
        **_instruction(uid),
        "response": f"A child knows {uid} from an example.",
        "score": 1 + int(uid[-1]) % 5,
    }


def _checklist(uid: str) -> Row:
    example = {"criterion": f"Explains {uid} by an example.", "points": 7, "tags": ["axis:form"]}
    return {
        **_question(uid),
        "rubrics": [example, {"criterion": "Says that a child cannot know.", "points": -3}],
    }


def _checked(uid: str) -> Row:
    return {
        **_checklist(uid),
        "answer": f"You explain {uid} to a child by an example.",
        "verdicts": [1, int(uid > "row-2")],
    }


def _conversation(uid: str) -> Row:
    row = _question(uid)
    return {"turns": [row.pop("question"), "What speaks against it?"], **row}


def _query(uid: str) -> Row:
    return {"uid": uid, "query": f"How would you explain {uid} to a child?"}


_PROMPTS, _TRAINING = ROOT / "eval_environments", ROOT / "environments"
_ASPECTS = ("--env.aspects=correctness,conciseness", "--env.strictness=3")

SUBJECTS: Sequence[Subject] = (
    Subject(
        "arena_hard",
        ArenaHardEnv,
        _PROMPTS / "arena_hard_environment.py",
        _arena,
        {"train_prompt_dataset": _same, "train_baseline_dataset": _same},
        {
            "answer": "By an example, of course: a child likes to see how things are, and then to "
            "explain them."
        },
        flags=("--env.judge_critique_rounds=1",),
    ),
    Subject(
        "arena_hard-candidates",
        ArenaHardEnv,
        _PROMPTS / "arena_hard_environment.py",
        _arena,
        {"train_prompt_dataset": _same, "train_baseline_dataset": _same},
        {
            "answer": "By an example, of course: a child likes to see how things are, and then to "
            "explain them."
        },
        flags=("--env.schedule=swiss",),
        compares=True,
        evaluated_by=ArenaCandidatesEnv,
    ),
    Subject(
        "mt_bench",
        MTBenchEnv,
        _PROMPTS / "mt_bench_environment.py",
        _turns,
        {
            "question_dataset": lambda row: {
                name: value for name, value in row.items() if name != "reference"
            },
            "reference_dataset": lambda row: {
                "question_id": row["question_id"],
                "choices": [{"turns": row["reference"]}],
            },
        },
        {"reference": ["By an example.", "As before."]},
        turns=2,
    ),
    Subject(
        "pairwise_judgement",
        PairwiseJudgementEnv,
        _PROMPTS / "pairwise_judgement_environment.py",
        _pairwise,
        {"eval_dataset": _same, "train_dataset": _preference},
        {"rejected": ["A child explains it.", "Nobody explains it.", "An example explains it."]},
        flags=("--env.swap_evaluate=True", "--env.num_choices=auto"),
        has_judge=False,
    ),
    Subject(
        "aspect_critique-policy",
        AspectCritiqueEnv,
        _TRAINING / "aspect_critique_environment.py",
        _question,
        {"train_dataset": _same},
        {"reference": "By an example."},
        flags=_ASPECTS,
    ),
    Subject(
        "aspect_critique-judge",
        AspectCritiqueEnv,
        _TRAINING / "aspect_critique_environment.py",
        _answered,
        {"train_dataset": _same},
        {"verdicts": {"correctness": 1, "conciseness": 0}},
        role=("--env.role=judge",),
        flags=_ASPECTS[:1],
        has_judge=False,
    ),
    Subject(
        "rubric_absolute-policy",
        RubricAbsoluteEnv,
        _TRAINING / "rubric_absolute_environment.py",
        _instruction,
        {"train_dataset": _same, "eval_dataset": _same},
        {"rubric": "Is there an example?"},
        flags=("--env.samples_per_item=2", "--env.judge_critique_rounds=1"),
    ),
    Subject(
        "rubric_absolute-judge",
        RubricAbsoluteEnv,
        _TRAINING / "rubric_absolute_environment.py",
        _labelled,
        {"train_dataset": _same, "eval_dataset": _same},
        {"score": 5},
        role=("--env.role=judge",),
        has_judge=False,
    ),
    Subject(
        "rubric_checklist-policy",
        RubricChecklistEnv,
        _TRAINING / "rubric_checklist_environment.py",
        _checklist,
        {"train_dataset": _same},
        {"rubrics": [{"criterion": "Is short.", "points": 2}]},
        flags=("--env.criteria_per_call=1", "--env.strictness=3"),
    ),
    Subject(
        "rubric_checklist-judge",
        RubricChecklistEnv,
        _TRAINING / "rubric_checklist_environment.py",
        _checked,
        {"train_dataset": _same},
        {"verdicts": [0, 1]},
        role=("--env.role=judge",),
        flags=("--env.criteria_per_call=1",),
        has_judge=False,
    ),
    Subject(
        "prompts",
        PromptsEnv,
        _TRAINING / "prompts_environment.py",
        _question,
        {"train_dataset": _same, "eval_dataset": _same},
        {"reference": "By an example."},
        flags=("--env.judge=aspect", *_ASPECTS),
    ),
    Subject(
        "prompts-conversations",
        PromptsEnv,
        _TRAINING / "prompts_environment.py",
        _conversation,
        {"train_dataset": _same, "eval_dataset": _same},
        {"reference": "By an example."},
        flags=("--env.judge=aspect", *_ASPECTS),
        turns=2,
    ),
    Subject(
        "self_critique",
        SelfCritiqueEnv,
        _PROMPTS / "self_critique_environment.py",
        _query,
        {"dataset": _same},
        {"rubric": "An example (100 points)"},
        compares=True,
    ),
    Subject(
        "example-constitution",
        ConstitutionEnv,
        ROOT / "examples" / "own_environment" / "constitution_environment.py",
        _question,
        {"dataset": _same},
        {},
    ),
)


def _together(subject: Subject, judge: str) -> Subject:
    """A subject in training whose groups are judged together: without the votes and the self-critique of a judge."""
    return replace(
        subject,
        title=f"{subject.title}-{judge}",
        role=(*subject.role, f"--env.group_judge={judge}"),
        flags=tuple(flag for flag in subject.flags if flag.startswith("--env.aspects=")),
    )


_IN_TRAINING = {(subject.env_type, subject.role): subject for subject in reversed(SUBJECTS)}
"""Without those that differ in `evaluate` alone."""
TOGETHER: Sequence[Subject] = [
    _together(subject, judge)
    for subject in reversed(_IN_TRAINING.values())
    if issubclass(subject.env_type.config_type, GroupJudgeSettings) and subject.has_judge
    for judge in ("listwise", "tournament")
]
"""For `serve` and `process`: `evaluate` judges no group."""
JUDGED_BY_MORE_THAN_THE_QUESTION = [subject for subject in SUBJECTS if subject.judged_anew]
OF_THE_HUB = [subject for subject in SUBJECTS if subject.env_type is not ConstitutionEnv]
"""The example takes the split `train`, whatever the dataset is."""
