"""`judgegym list --judges`: known models, until when they answer, and what follows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from judgegym.engine.terminal.output import format_count
from judgegym.judges.core.naming import suggest_similar
from judgegym.llm.cost.models import (
    DEFAULT_JUDGE,
    SOON,
    KnownModel,
    known_models,
    today,
)
from judgegym.llm.errors import SettingsError

_HEADER = ("model", "retired", "successor")


def describe_models(names: Sequence[str]) -> list[str]:
    """Describe the named models, or all, by provider; the next one to be retired comes first.

    Raises:
        SettingsError: a model is unknown.
    """
    day = today()
    providers: dict[str, dict[str, KnownModel]] = {}
    for name, model in _select_models(names).items():
        providers.setdefault(model.provider, {})[name] = model
    lines = list[str]()
    for provider, models in providers.items():
        lines += [*_describe_provider(provider, models, day), ""]
    return [
        *lines,
        "No date: no end is announced. Dates are of the providers' own endpoints.",
        f"The default judge is {DEFAULT_JUDGE}.",
    ]


def _select_models(names: Sequence[str]) -> Mapping[str, KnownModel]:
    """Return the named models; without names all, each under its first name."""
    known = known_models()
    if not names:
        first_names: dict[int, str] = {}
        for name, model in known.items():
            first_names.setdefault(id(model), name)
        return {name: known[name] for name in first_names.values()}
    for name in names:
        if name not in known:
            raise SettingsError(
                f"{name}: no model with known dates{suggest_similar(name, known)}; "
                "`judgegym list --judges` shows all"
            )
    return {name: known[name] for name in names}


def _describe_provider(provider: str, models: Mapping[str, KnownModel], day: date) -> Iterator[str]:
    """Yield the lines of a provider."""
    page = next(iter(models.values())).lifecycle
    checked = sorted(model.as_of for model in models.values())
    dates = f"{checked[0]}"
    if checked[-1] > checked[0]:
        dates = f"{checked[0]} to {checked[-1]}"
    yield f"{provider}, checked {dates}:"
    yield f"  {page}"
    rows = [_HEADER]
    for name, model in sorted(models.items(), key=lambda entry: _retirement_order(entry[1], day)):
        rows.append((name, _describe_end(model, day), model.successor or ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        line = "  ".join(cells)
        yield f"  {line}".rstrip()


def _retirement_order(model: KnownModel, day: date) -> tuple[int, date]:
    """Return a key: announced dates, earliest dates, models without a date, then past dates."""
    if model.retired is not None and model.retired <= day:
        return 3, model.retired
    if model.retired is not None:
        return 0, model.retired
    if model.not_before is not None:
        return 1, model.not_before
    return 2, date.max


def _describe_end(model: KnownModel, day: date) -> str:
    """Return when a model is retired, with the days that are left if they are few."""
    if model.retired is None and model.not_before is None:
        return ""
    if model.retired is None:
        return f"not before {model.not_before}"
    if model.retired <= day:
        return f"{model.retired}, gone"
    if model.ends_within(SOON, day):
        days_left = format_count((model.retired - day).days, "day")
        return f"{model.retired}, in {days_left}"
    return f"{model.retired}"
