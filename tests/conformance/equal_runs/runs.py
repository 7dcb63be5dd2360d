"""The runs: every environment with two verbs, every kind of judge, groups, conversations, and what reads finished runs.

A command runs in a folder of its own, beside the folder `rows` (`rows.py`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Words = tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """One command line.

    Attributes:
        words: behind `judgegym`.
        earlier: the same in checkouts that refuse `words`, if they call it otherwise.
    """

    words: Words
    earlier: Words | None = None

    @property
    def spellings(self) -> Sequence[Words]:
        """The command lines to try."""
        return [self.words] if self.earlier is None else [self.words, self.earlier]


@dataclass(frozen=True)
class Run:
    """Commands in one folder, one after the other."""

    name: str
    commands: tuple[Command, ...]


SEED = "7"
_EVALUATE = f"--offline --env.seed={SEED} --env.write_report=False --env.data_dir_to_save_evals=run"
_PROCESS = (
    f"--offline --env.seed={SEED} --env.write_report=False "
    "--env.data_path_to_save_groups=groups.jsonl"
)
_SCORE = f"--offline --seed={SEED}"
_ASPECTS = "correctness,conciseness"

ENVIRONMENTS: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "arena_hard": (
        {
            "": "--env.judge_critique_rounds=1 --env.style_control=True",
            "candidates": "--env.candidates_play=tournament --env.schedule=swiss",
            "candidates-baseline": "--env.candidates_play=baseline",
            "json_schema": "--env.judge_output=json_schema --env.judge_protocol=arena_hard_v0.1",
            "jury": "--env.judges=a,b,c",
            "thinking": "--env.thinking_mode=True --env.model_answers=../rows/arena_answers.jsonl",
        },
        {
            "": "--env.group_size=3",
            "listwise": "--env.group_judge=listwise --env.listwise_orders=2",
            "tournament": "--env.group_judge=tournament --env.schedule=swiss --env.group_reward_range=signed "
            "--env.invalid_thinking_reward=-1",
        },
    ),
    "mt_bench": ({"": ""}, {"": "--env.judge_output=json_schema"}),
    "pairwise_judgement": (
        {"": "--env.swap_evaluate=True --env.num_choices=auto"},
        {"": "--env.swap_consistency=True"},
    ),
    "self_critique": ({"": "--env.critique_rounds=2"}, {"": "--env.critique_rounds=1"}),
    "aspect_critique": (
        {
            "": f"--env.aspects={_ASPECTS} --env.strictness=3 --env.scoring=share",
            "judge": "--env.role=judge",
        },
        {
            "tournament": f"--env.aspects={_ASPECTS} --env.group_judge=tournament "
            "--env.tournament_game=choice",
            "judge": "--env.role=judge",
        },
    ),
    "rubric_absolute": (
        {
            "": "--env.samples_per_item=2 --env.judge_critique_rounds=1 --env.judges=a,b "
            "--env.jury_rule=median",
            "judge": "--env.role=judge --env.output_format=result",
            "responses": "--env.score_responses=True --env.scale_max=10",
        },
        {
            "listwise": "--env.group_judge=listwise --env.judge_max_input_tokens=2000",
            "judge": "--env.role=judge --env.reward=distance",
        },
    ),
    "rubric_checklist": (
        {
            "": "--env.criteria_per_call=1 --env.strictness=3",
            "judge": "--env.role=judge --env.criteria_per_call=1",
        },
        {"": "--env.rubric_dropout=0.3 --env.formula=rar --env.cannot_assess=partial"},
    ),
}
"""Settings of `evaluate` and of `process`, by what tells the runs apart."""

SINGLE: Mapping[str, str] = {
    "rubric": "--judge=rubric --samples_per_item=3 --samples_pooling=median",
    "aspect": f"--judge=aspect --aspects={_ASPECTS} --strictness=3",
    "checklist": "--judge=checklist --criteria_per_call=2 --formula=weighted_mean",
    "peer": "--judge=peer --judge_critique_rounds=1",
    "prompt": "--judge=../rows/judge.yaml --samples_per_item=2 --judge_critique_rounds=1",
    "reward_model": "--judge=reward_model --reward_scale=standardised --reward_mean=0.1 --reward_deviation=0.5",
    "rule": "--judge=rule --rule=length --rule_soft_limit=20 --rule_hard_limit=120",
    "composite": "--judge=composite --reward=@../rows/reward.json",
    "jury": "--judges=a,b,large --jury_rule=majority --jury_weights=a=2,b=1,large=1 --jury_quorum=2",
    "cascade": "--cascade=small,large --cascade_threshold=0.4 --cascade_recheck=0.5",
    "steps": "--judge=steps --steps_combine=min --steps_most=3",
}
"""Judges that see each response by itself."""

COMPARING: Mapping[str, str] = {
    "arena_hard": "--judge=arena_hard --judge_protocol=arena_hard_v0.1",
    "choice": "--judge=choice",
    "listwise": "--judge=listwise --listwise_orders=2 --rubric=Is_it_right?",
    "tournament": "--judge=tournament --schedule=balanced --game_orders=balanced",
}
"""Judges that compare responses."""

SCORED: Mapping[str, tuple[str, str]] = {
    "json_schema": (
        "answers",
        "--judge=rubric --judge_output=json_schema --judge_critique_rounds=1",
    ),
    "checklist-json_schema": (
        "answers",
        "--judge=checklist --judge_output=json_schema --cannot_assess=leave_out",
    ),
    "shared_first": (
        "answers",
        "--judge=rubric --judge_prompt_layout=shared_first --scale_min=0 --scale_max=10",
    ),
    "arena_hard-baseline": ("games", "--judge=arena_hard"),
    "failed": ("answers", "--judge=rule --rule=number --max_judge_error_rate=1"),
    "garbage": (
        "answers",
        """--judge=rubric --faults='{"garbage": 0.7}' --max_judge_error_rate=1""",
    ),
    "first_that_says": (
        "numbers",
        "--judge=composite --reward=rule,rubric --rule=number --rule_mismatch=cannot_say "
        "--combine=first_that_says",
    ),
    "alternate": (
        "answers",
        "--judge=composite --reward=peer,aspect --aspects=coherence --combine=alternate",
    ),
    "traces": ("traces", "--judge=composite --reward=@../rows/trace_reward.json"),
    "traces-steps": (
        "traces",
        "--judge=steps --steps_judge=@../rows/steps.json --steps_combine=product",
    ),
    "conversations": ("talks", "--judge=rubric --judge_conversation_limit=1000"),
    "images": ("pictures", "--judge=aspect --aspects=correctness --judge_image_max_side=0"),
    "thinking": ("thoughts", "--judge=rubric --judged_thinking=kept"),
    "bad_rows": ("bad", "--judge=rubric --on_bad_row=skip --max_judge_error_rate=1"),
    "grouped": ("grouped", "--judge=listwise --group_by=question_id"),
    "gold": (
        "gold",
        "--judge=aspect --aspects=correctness --gold_column=gold --category_column=source",
    ),
    "sampled": ("prompts", "--judge=rubric --responses_per_prompt=3 --thinking_mode=True"),
}
"""Further runs of `score`: the rows and the settings."""

TALKS: Mapping[str, str] = {
    "turns": "--env.eval_dataset=../rows/several_turns.jsonl --env.judged=turns",
    "user": "--env.eval_dataset=../rows/prompts.jsonl --env.user_max_turns=2 "
    "--env.user_goal=Learn_something_new.",
}
"""Conversations of `evaluate prompts`."""


def _command(line: str, earlier: str | None = None) -> Command:
    return Command(
        tuple(shlex.split(line)), None if earlier is None else tuple(shlex.split(earlier))
    )


def _run(name: str, *lines: str) -> Run:
    return Run(name, tuple(_command(line) for line in lines))


def _name(*parts: str) -> str:
    return "-".join(part for part in parts if part)


def _of_environment(flags: str) -> str:
    """The settings of `score` as those of an environment."""
    return " ".join(f"--env.{flag.removeprefix('--')}" for flag in flags.split())


def _runs() -> Iterator[Run]:
    for environment, (evaluations, trainings) in ENVIRONMENTS.items():
        for part, flags in evaluations.items():
            yield _run(
                _name("evaluate", environment, part),
                f"evaluate {environment} {_EVALUATE} --limit=3 {flags}",
            )
        for part, flags in trainings.items():
            yield _run(
                _name("process", environment, part),
                f"process {environment} {_PROCESS} --env.total_steps=2 {flags}",
            )
    for judge, flags in SINGLE.items():
        settings = _of_environment(flags)
        data = "../rows/prompts.jsonl"
        yield _run(
            f"evaluate-prompts-{judge}",
            f"evaluate prompts {_EVALUATE} --env.eval_dataset={data} {settings}",
        )
        yield _run(
            f"process-prompts-{judge}",
            f"process prompts {_PROCESS} --env.train_dataset={data} --env.total_steps=2 {settings}",
        )
    for part, flags in TALKS.items():
        yield _run(f"evaluate-prompts-{part}", f"evaluate prompts {_EVALUATE} {flags}")
    for judge, flags in {**SINGLE, **COMPARING}.items():
        yield _run(
            f"score-{judge}", f"score ../rows/answers.jsonl --out scored.jsonl {_SCORE} {flags}"
        )
    for part, (rows, flags) in SCORED.items():
        yield _run(
            f"score-{part}", f"score ../rows/{rows}.jsonl --out scored.jsonl {_SCORE} {flags}"
        )
    evaluated = f"evaluate prompts {_EVALUATE} --env.eval_dataset=../rows/prompts.jsonl"
    yield _run("evaluate-resumed", f"{evaluated} --env.budget_calls=5", f"{evaluated} --resume")
    scored = f"score ../rows/answers.jsonl --out scored.jsonl {_SCORE} --judge=peer"
    yield _run("score-resumed", f"{scored} --limit=2", f"{scored} --resume")
    yield _run(
        "compare",
        evaluated.replace("=run", "=first"),
        f"{evaluated.replace('=run', '=second')} --env.eval_temperature=0.1",
        "compare first second --json comparison.json",
    )
    yield _run(
        "select",
        f"score ../rows/answers.jsonl --out scored.jsonl {_SCORE} --judge=rubric",
        "select scored.jsonl --out best.jsonl --best",
        "select scored.jsonl --out pairs.jsonl --pairs --pairs_per_prompt=all --seed=7 --card=none",
    )
    small = (
        f"score ../rows/sums.jsonl --out small.jsonl {_SCORE} --judge=aspect --aspects=correctness "
        "--strictness=3"
    )
    large = f"score ../rows/sums.jsonl --out large.jsonl {_SCORE} --judge_model_name=large"
    choose = "small.jsonl large.jsonl --confidence votes --keep 0.8 --out cascade.yaml"
    yield Run(
        "replay",
        (
            _command(f"{small} --judge_model_name=small"),
            _command(large),
            _command(f"replay --choose {choose}", f"cascade {choose}"),
            _command("replay small.jsonl large.jsonl --cascade @cascade.yaml --out replayed.jsonl"),
            _command(
                "replay small.jsonl large.jsonl --jury mean --jury_weights small=1,large=2 --out "
                "jury.jsonl"
            ),
            _command("replay small.jsonl large.jsonl --sweep --json sweep.json"),
        ),
    )
    yield _run(
        "audit",
        "audit ../rows/labelled.jsonl --judge choice --second_form rubric --limit 8 --label_noise "
        "0 --out audited "
        "--offline",
    )
    yield _run(
        "attack",
        "attack ../rows/answers.jsonl --judge rubric --out attacked --only emotion --offline",
    )


RUNS: Sequence[Run] = tuple(_runs())
