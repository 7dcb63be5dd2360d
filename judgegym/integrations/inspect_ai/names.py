"""The names under which inspect finds the scorers and tasks."""

from __future__ import annotations

from inspect_ai._util.registry import registry_name

PACKAGE = "judgegym"


def registered(name: str) -> str:
    """The name to register as, so that inspect has it as `judgegym/NAME`.

    inspect adds the package's name itself, but only where it finds how the package was installed, which it does not for
    a checkout on PYTHONPATH.
    """
    return name if registry_name(registered, name) != name else f"{PACKAGE}/{name}"
