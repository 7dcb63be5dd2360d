"""Make the tables of a page, by name, from what the code declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from docs.tools.environment_tables import ENVIRONMENT_TABLES
from docs.tools.extras_table import extras
from docs.tools.file_fields import read_attributes
from docs.tools.judge_tables import JUDGE_TABLES
from docs.tools.loss_table import losses
from docs.tools.server_tables import SERVER_TABLES
from judgegym.data.answers import CONVERSATIONS, PROMPTS, RESPONSES, SYSTEM
from judgegym.datasets.select.layouts import LAYOUTS, reader_settings
from judgegym.datasets.select.selection import REASONS
from judgegym.engine.settings.training import IGNORED
from judgegym.environments.spec import EnvSpec
from judgegym.judges.scorers.columns import USUAL_COLUMNS
from judgegym.llm.refusals.request_fields import FIELDS
from judgegym.monitoring.monitors import MONITORS
from judgegym.offline.faults import FAULTS
from judgegym_trials.attacks.suite import BUILT_IN, load_attacks
from judgegym_trials.audit.checks import CHECKS
from judgegym_trials.audit.settings import Threshold, load_settings

_SIDES = {"at_least": "≥ ", "at_most": "≤ ", "within": "±"}
_FLAGS = {
    "responses": "`--best`, `--top`, `--threshold`",
    "labels": "`--threshold` (all responses, labelled), `--pairs`",
    "pairs": "`--pairs`",
    "prompts": "`--best`",
}


def code_table(name: str) -> str:
    """Return the table of this name in Markdown.

    Raises:
        KeyError: no table has this name.
    """
    return "\n".join(f"| {' | '.join(cells)} |" for cells in _TABLES[name]())


def _monitors() -> Iterator[tuple[str, ...]]:
    yield from (("monitor", "measure"), ("---", "---"))
    yield from ((f"`{name}`", about) for name, about in MONITORS.items())


def _columns() -> Iterator[tuple[str, ...]]:
    yield from (("read as", "columns; the first with a value counts"), ("---", "---"))
    columns = {"prompt": PROMPTS, "conversation": CONVERSATIONS, "system prompt": SYSTEM}
    columns |= {"response": RESPONSES, **USUAL_COLUMNS}
    for part, names in columns.items():
        yield (part, ", ".join(f"`{name}`" for name in names))


def _reasons() -> Iterator[tuple[str, ...]]:
    yield from (("reason", "meaning"), ("---", "---"))
    yield from ((f"`{name}`", about) for name, about in REASONS.items())


def _attacks() -> Iterator[tuple[str, ...]]:
    yield from (("family", "attacks"), ("---", "---"))
    families: dict[str, list[str]] = {}
    for attack in load_attacks(BUILT_IN):
        families.setdefault(attack.family, []).append(f"`{attack.name}`")
    yield from ((family, ", ".join(names)) for family, names in families.items())


def _refusals() -> Iterator[tuple[str, ...]]:
    yield from (("refused field", "effect"), ("---", "---"))
    fields: dict[str, list[str]] = {}
    for field in FIELDS.values():
        fields.setdefault(field.becomes, []).append(f"`{field.name}`")
    yield from ((", ".join(names), becomes) for becomes, names in fields.items())


def _spec() -> Iterator[tuple[str, ...]]:
    yield from (("field", "contents"), ("---", "---"))
    yield from ((f"`{name}`", about) for name, about in read_attributes(EnvSpec).items())


def _checks() -> Iterator[tuple[str, ...]]:
    yield ("check", "effect", "threshold", "margin")
    yield ("---",) * 4
    for name, threshold in load_settings().checks.items():
        effect = CHECKS[name].says.format("…")
        yield (f"`{name}`", effect, _limit(threshold), f"{threshold.margin:g}")


def _limit(threshold: Threshold) -> str:
    return f"{_SIDES[threshold.side]}{threshold.limit:g}" if threshold.side else ""


def _layouts() -> Iterator[tuple[str, ...]]:
    yield ("layout", "read by", "columns", "selected with")
    yield ("---",) * 4
    for name, layout in LAYOUTS.items():
        flags = reader_settings(name, conversational=True)
        reader = f"{layout.about}: `{flags}`" if flags else layout.about
        columns = ", ".join(f"`{column}`" for column in layout.columns)
        yield (f"`{name}`", reader, columns, _FLAGS[layout.takes])


def _faults() -> Iterator[tuple[str, ...]]:
    yield from (("fault", "effect"), ("---", "---"))
    for name, fault in FAULTS.items():
        yield (f"`{name}`", fault.about.replace("--slow_ms", "`--slow_ms`"))


def _ignored() -> Iterator[tuple[str, ...]]:
    yield from (("setting", "why it has no effect"), ("---", "---"))
    yield from ((f"`{name}`", reason) for name, reason in IGNORED.items())


_TABLES: Mapping[str, Callable[[], Iterator[tuple[str, ...]]]] = {
    "monitors": _monitors,
    "checks": _checks,
    "spec": _spec,
    "attacks": _attacks,
    "refusals": _refusals,
    "columns": _columns,
    "reasons": _reasons,
    "layouts": _layouts,
    "faults": _faults,
    "ignored": _ignored,
    "losses": losses,
    "extras": extras,
    **ENVIRONMENT_TABLES,
    **SERVER_TABLES,
    **JUDGE_TABLES,
}
