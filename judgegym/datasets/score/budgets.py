"""The budget of a run of `judgegym score`, and what is said when it is spent.

A budget is that of the whole run: what its ledger says that earlier parts have spent counts, so that a command which is
started again and again, with `--resume`, spends it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from judgegym.datasets.score.clients import resume_command
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.terminal.output import dollars
from judgegym.llm.budget import Budget, Expense
from judgegym.llm.types import ChatSettings

_REPLACED = ("--budget_calls", "--budget_usd")


def budget_of(settings: ScoreSettings) -> Budget | None:
    """The budget that the settings give, to be shared by all clients of the run; `None` without a limit."""
    if settings.budget_calls is None and settings.budget_usd is None:
        return None
    return Budget(settings.budget_calls, settings.budget_usd)


def note_earlier(budget: Budget, ledger: CallLedger, clients: Iterable[ChatSettings]) -> None:
    """Count what the earlier parts of a run have spent, at the prices of now.

    Args:
        budget: that of the run, before its first request.
        ledger: that of the run.
        clients: the models that the run asks.
    """
    prices = {endpoint.model: client.prices for client in clients for endpoint in client.endpoints}
    budget.begin_after(ledger.earlier.priced(prices))


def spent_message(
    why: str, settings: ScoreSettings, out: Path, spent: Expense, command: Sequence[str], *, judged: int, of: int
) -> str:
    """What a run that is out of budget has come to, and the command that goes on.

    Args:
        why: what is spent.
        settings: of the run.
        out: the file that it would have written; an earlier run, whose failures were judged again, may have.
        spent: by the whole run.
        command: the words of the command, as the user gave them.
        judged: responses that have ended with a score or a failure.
        of: all responses.
    """
    cost = "" if spent.usd is None else f" and {dollars(spent.usd)}"
    calls = "1 call" if spent.calls == 1 else f"{spent.calls:,} calls"
    file = f"{out} is as an earlier run has left it" if out.exists() else f"{out} is not written"
    again = resume_command(settings, [*_without_budget(command)], *_more(settings, spent))
    return (
        f"{why}. {judged:,} of {of:,} responses are judged, with {calls}{cost} in all; {file}, "
        f"and nothing that was paid for is lost. To go on:\n  {again}"
    )


def _without_budget(command: Sequence[str]) -> Iterator[str]:
    """The words without budgets."""
    words = iter(command)
    for word in words:
        name, has_value, _ = word.partition("=")
        if name not in _REPLACED:
            yield word
        elif not has_value:
            next(words, None)


def _more(settings: ScoreSettings, spent: Expense) -> list[str]:
    """The budgets, of which one that is spent is twice what was spent; calls for dollars that cannot be counted."""
    calls, usd = settings.budget_calls, settings.budget_usd
    if (calls is not None and spent.calls >= calls) or (usd is not None and spent.usd is None):
        calls = 2 * spent.calls
    if usd is not None and spent.usd is not None and spent.usd >= usd:
        usd = 2 * spent.usd
    of_usd = [] if usd is None or spent.usd is None else [f"--budget_usd={usd:g}"]
    return [*([] if calls is None else [f"--budget_calls={calls}"]), *of_usd]
