"""The output as Markdown: costs, a table of all environments, a table of the endpoint's behaviours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from examples.real_model.behaviours import Behaviour
from examples.real_model.configs import Run
from examples.real_model.measured import Measured

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
    """Return a table; the rows' texts are Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def evaluations(found: Sequence[tuple[Run, Measured]]) -> str:
    """Return the table of the environments, with a sum at its end."""
    rows = [_evaluation(run, measured) for run, measured in found]
    numbers = [measured for _, measured in found]
    total = [
        "all",
        "",
        f"{sum(each.rows for each in numbers)}",
        f"{sum(each.verdicts for each in numbers)}",
        f"{sum(sum(each.failures.values()) for each in numbers)}",
        "",
        f"{sum(each.calls for each in numbers):,}",
        f"{sum(each.tokens_in for each in numbers):,}",
        f"{sum(each.tokens_out for each in numbers):,}",
        f"{max((each.longest for each in numbers), default=0):,}",
        f"{sum(each.seconds for each in numbers):.0f}",
    ]
    return markdown(_EVALUATED, [*rows, total])


def _evaluation(run: Run, measured: Measured) -> list[str]:
    return [
        f"`{run.name}`",
        run.held,
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


def behaviours(found: Iterable[Behaviour]) -> str:
    """Return the table of the endpoint's behaviours."""
    return markdown(
        ("what", "asked", "answered"), ([each.topic, each.asked, each.found] for each in found)
    )


def facts(found: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values."""
    return markdown(("what", "measured"), ([name, value] for name, value in found))
