"""Public names of a package that are imported when they are first used, so that importing the package is fast."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def import_lazily(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package.

    Args:
        package: the name of the package.
        modules: its public names, by the module that defines them.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def get_attribute(name: str) -> object:
        """Import a public name from its module.

        Raises:
            AttributeError: the package has no such name.
        """
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get_attribute
