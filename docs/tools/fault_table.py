"""Show the faults that an offline endpoint can have, with what each does."""

from __future__ import annotations

from judgegym.offline.faults import FAULTS


def fault_table(name: str) -> str:
    """Return the table of the faults of the `endpoint`.

    Raises:
        KeyError: another name.
    """
    return {"endpoint": _table}[name]()


def _table() -> str:
    rows = [
        f"| `{name}` | {fault.about.replace('--slow_ms', '`--slow_ms`')} |"
        for name, fault in FAULTS.items()
    ]
    return "\n".join(["| fault | what happens |", "|---|---|", *rows])
