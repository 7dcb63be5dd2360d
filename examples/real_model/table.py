"""Render the output as Markdown: costs, a table of environments, a table of behaviours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from examples.real_model.behaviours import Behaviour
from examples.real_model.configs import Run
from examples.real_model.measured import RunNumbers

_EVALUATED = (
    "environment",
    "verdicts held by",
    "rows",
    "verdicts",
    "failures",
    "headline (95 %)",
    "calls",
    "tokens in",
    "out",
    "longest call",
    "seconds",
)


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the cells are Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    contents = [" | ".join(line) for line in lines]
    return "\n".join(f"| {content} |" for content in contents)


def evaluations(evaluated: Sequence[tuple[Run, RunNumbers]]) -> str:
    """Return the table of the environments, with a sum at its end."""
    rows = [_evaluation(run, measured) for run, measured in evaluated]
    numbers = [measured for _, measured in evaluated]
    total = [
        "all",
        "",
        str(sum(entry.rows for entry in numbers)),
        str(sum(entry.verdicts for entry in numbers)),
        str(sum(sum(entry.failures.values()) for entry in numbers)),
        "",
        f"{sum(entry.calls for entry in numbers):,}",
        f"{sum(entry.tokens_in for entry in numbers):,}",
        f"{sum(entry.tokens_out for entry in numbers):,}",
        f"{max((entry.longest for entry in numbers), default=0):,}",
        f"{sum(entry.seconds for entry in numbers):.0f}",
    ]
    return markdown(_EVALUATED, [*rows, total])


def _evaluation(run: Run, measured: RunNumbers) -> list[str]:
    return [
        f"`{run.name}`",
        run.constraint,
        str(measured.rows),
        str(measured.verdicts),
        measured.failed,
        measured.result,
        f"{measured.calls:,}",
        f"{measured.tokens_in:,}",
        f"{measured.tokens_out:,}",
        f"{measured.longest:,}",
        f"{measured.seconds:.0f}",
    ]


def behaviours(measured: Iterable[Behaviour]) -> str:
    """Return the table of the endpoint's behaviours."""
    return markdown(
        ("what", "asked", "answered"),
        ([behaviour.topic, behaviour.request, behaviour.observed] for behaviour in measured),
    )


def facts(entries: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values."""
    return markdown(("what", "measured"), ([name, value] for name, value in entries))
