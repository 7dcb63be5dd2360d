"""Show the settings of Atropos that have no effect here, with the reasons."""

from __future__ import annotations

from judgegym.engine.settings.training import IGNORED


def ignored_settings(name: str) -> str:
    """Return the table of the settings that `atropos` has and JudgeGym ignores.

    Raises:
        KeyError: another name.
    """
    return {"atropos": _table}[name]()


def _table() -> str:
    rows = [f"| `{setting}` | {reason} |" for setting, reason in IGNORED.items()]
    return "\n".join(["| setting | why it has no effect |", "|---|---|", *rows])
