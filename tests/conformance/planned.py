"""`--plan` against the run that it is the plan of, both offline: calls, prompt tokens and dollars.

A run's numbers are those of its ledger. The prompts of both sides are counted by the project's own
counter.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judgegym.cli.commands import main as judgegym
from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.llm.usage import count_tokens
from tests.command import called, clean_environment
from tests.conformance.equal_runs.rows import write_rows
from tests.conformance.equal_runs.runs import COMPARING, ENVIRONMENTS, SCORED, SINGLE, TALKS
from tests.plans import Count, read_plan

PROMPT_TOLERANCE, COST_TOLERANCE = 0.02, 0.10
_PRICES = "--judge_price_input=3000 --judge_price_output=15000"
"""High ones, so that costs are printed with many digits."""
_POLICY = "--openai.price=input=1000,output=4000"
_SCORED = f"--out scored.jsonl --seed=7 {_PRICES}"
_EVALUATED = "--env.data_dir_to_save_evals=run --limit=3"
_ENVIRONMENT = (
    "--env.write_report=False --env.judge_price_input=3000 --env.judge_price_output=15000 "
    f"{_POLICY}"
)


PROMPT_FILES: Mapping[str, str] = {
    "levels": """
prompt: |-
  Grade the answer. Reply with your reasons, then the grade in double brackets: [[good]] or [[bad]].

  [Question]
  {prompt}

  [Answer]
  {response}
scale: {bad: 0, good: 1}
verdict: {within: brackets}
""",
    "numbers": """
prompt: |-
  Rate the answer from 1 to 5. End with SCORE: and the number.

  ### Question
  {prompt}

  ### Answer
  {response}
scale: [1, 5]
verdict: {after: "SCORE:"}
system: You work for a shop.
""",
}


@dataclass(frozen=True)
class Case:
    """A run to plan and to make, in a folder beside `rows`."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Numbers:
    """What a run asks; the calls with their bounds."""

    calls: Count
    prompt_tokens: int
    cost: float | None


def cases() -> Iterator[Case]:
    """Every kind and form of a judge, and every environment, on three data sets each."""
    for number, (rows, single) in enumerate(
        (("answers", "gold"), ("long", "long"), ("several", "sums"))
    ):
        for kind, flags in {**SINGLE, **COMPARING}.items():
            data = rows if kind in SINGLE or rows != "long" else "responses"
            yield _case(f"score-{kind}-{data}", f"score ../rows/{data}.jsonl {_SCORED} {flags}")
        for form in PROMPT_FILES:
            words = (
                f"score ../rows/{single}.jsonl {_SCORED} --judge=../rows/{form}.yaml "
                "--judge_critique_rounds=1"
            )
            yield _case(f"score-prompt-{form}-{single}", words)
        for form, (own, flags) in SCORED.items():
            if "faults" not in flags and number == 0:
                policy = _POLICY if "responses_per_prompt" in flags else ""
                yield _case(
                    f"score-{form}", f"score ../rows/{own}.jsonl {_SCORED} {policy} {flags}"
                )
    for seed in (7, 8, 9):
        common = f"--env.seed={seed} {_ENVIRONMENT}"
        for environment, (evaluations, trainings) in ENVIRONMENTS.items():
            for part, flags in evaluations.items():
                if "model_answers" in flags and seed != 7:
                    continue  # the file has the answers to the rows of one seed
                words = f"evaluate {environment} {_EVALUATED} {common} {flags}"
                yield _case(f"evaluate-{environment}-{part}-{seed}", words)
            for part, flags in trainings.items():
                words = (
                    f"process {environment} --env.data_path_to_save_groups=groups.jsonl "
                    "--env.total_steps=2"
                )
                yield _case(f"process-{environment}-{part}-{seed}", f"{words} {common} {flags}")
        for kind, flags in SINGLE.items():
            words = f"evaluate prompts {_EVALUATED} --env.eval_dataset=../rows/prompts.jsonl"
            yield _case(
                f"evaluate-prompts-{kind}-{seed}", f"{words} {common} {_of_environment(flags)}"
            )
    for number, judge in enumerate(("rubric", "peer", "listwise")):
        words = f"--judge={judge} {_PRICES} --seed={number} --limit={number + 2}"
        yield _case(
            f"attack-{judge}", f"attack ../rows/several.jsonl --out attacked --only=emotion {words}"
        )
        second = "--second_form=rubric" if judge == "listwise" else ""
        data = f"../rows/labelled.jsonl --out audited --label_noise=0 {second}"
        yield _case(f"audit-{judge}", f"audit {data} {words}".replace("--limit=", "--limit=1"))
    for part, flags in TALKS.items():
        user = "--env.user_price=input=1000,output=4000" if part == "user" else ""
        yield _case(
            f"evaluate-prompts-{part}",
            f"evaluate prompts {_EVALUATED} {_ENVIRONMENT} {user} {flags}",
        )


def _case(name: str, line: str) -> Case:
    words = [*shlex.split(line), "--offline"]
    if any(f"{flag}=rule" in words for flag in ("--judge", "--env.judge")):
        words = [word for word in words if "judge_price" not in word]  # it asks nobody
    return Case(name, tuple(map(_with_prices, words)))


def _with_prices(word: str) -> str:
    """A setting that lists members of a jury or a cascade by name, with the price of each."""
    name, _, models = word.partition("=")
    if (
        name.rpartition(".")[2].removeprefix("--") not in ("judges", "cascade")
        or not models[:1].isalpha()
    ):
        return word
    price = {"judge_price_input": 3000, "judge_price_output": 15000}
    return f"{name}={json.dumps({model: {'judge_model_name': model, **price} for model in models.split(',')})}"


def _of_environment(flags: str) -> str:
    return " ".join(f"--env.{flag.removeprefix('--')}" for flag in flags.split())


def write_data(folder: Path) -> None:
    """Write the rows of all cases."""
    write_rows(folder)
    criteria = [
        {"criterion": "Gives an example.", "points": 5},
        {"criterion": "Is short.", "points": 2},
    ]
    long = [
        {
            "prompt": f"{number}. "
            + "What does the tide have to do with the moon, and what with the wind? " * 9,
            "response": " ".join(
                f"Sentence {each} says something about the tide." for each in range(12 * number + 3)
            ),
            "reference": "The moon pulls the water.",
            "criteria": criteria,
        }
        for number in range(9)
    ]
    several = [
        {
            "prompt": f"Name {number + 2} things that the tide and a prime number have in common, and "
            "say why.",
            "responses": [
                "A thing and a prime number.",
                "",
                *(f"Thing {n}, thing {2 * n}." for n in range(number + 1)),
            ],
            "criteria": criteria,
        }
        for number in range(6)
    ]
    several.append(several[0])
    responses = [
        {"responses": [row.pop("response"), "It does not.", "I ask."], **row}
        for row in map(dict, long)
    ]
    for name, text in PROMPT_FILES.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    for name, rows in (("long", long), ("several", several), ("responses", responses)):
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )


def planned(folder: Path, case: Case) -> Numbers:
    """The numbers that the plan prints."""
    plan = read_plan(_said(folder, (*case.words, "--plan")))
    return Numbers(plan.calls, plan.prompt_tokens, plan.cost)


def made(folder: Path, case: Case) -> Numbers:
    """The numbers of the run, by its ledger."""
    _said(folder, case.words)
    ledgers = folder.rglob("calls.jsonl*")
    calls = [
        call for ledger in ledgers for call in read_calls(ledger.parent) if call.answer.attempts
    ]
    sent = sum(call.answer.attempts for call in calls)
    prompts = sum(
        count_tokens(message["content"]) for call in calls for message in call.messages or ()
    )
    costs = [call.answer.usage.cost for call in calls]
    return Numbers(
        Count(sent, sent, sent), prompts, None if None in costs else sum(filter(None, costs))
    )


def _said(folder: Path, words: Sequence[str]) -> str:
    folder.mkdir(exist_ok=True)
    before = Path.cwd()
    os.chdir(folder)
    try:
        ended = called(lambda: judgegym([*words]), clean_environment())
    finally:
        os.chdir(before)
    assert ended.code in (0, 1, 4), ended.said  # the scores of stand-ins mean nothing
    return ended.out


def differences(plan: Numbers, run: Numbers) -> Mapping[str, str]:
    """Which numbers of a plan are not those of the run, with both."""
    found = {}
    if not plan.calls.low <= run.calls.usual <= plan.calls.high:
        found["calls"] = f"{plan.calls.low} to {plan.calls.high}, not {run.calls.usual}"
    if abs(plan.prompt_tokens - run.prompt_tokens) > PROMPT_TOLERANCE * run.prompt_tokens:
        found["prompt tokens"] = f"{plan.prompt_tokens}, not {run.prompt_tokens}"
    if (plan.cost is None) != (run.cost is None):
        found["cost"] = f"{plan.cost}, not {run.cost}"
    both = plan.cost or 0.0, run.cost or 0.0
    if abs(both[0] - both[1]) > COST_TOLERANCE * both[1] + 0.01:  # it is printed in cents
        found["cost"] = f"{plan.cost}, not {run.cost}"
    return found
