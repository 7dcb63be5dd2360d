"""The presets that the package brings: `--config NAME` finds them without a checkout.

The folder `configs/` of a checkout links to them.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

from judgegym.llm.errors import SettingsError

_FOLDER = Path(__file__).parents[2] / "presets"
_ENDING = ".yaml"


def bundled(beginning: str = "") -> Sequence[str]:
    """The names of the presets that begin so, in order."""
    return sorted(path.stem for path in _FOLDER.glob(f"{beginning}*{_ENDING}"))


def config_file(value: str | os.PathLike[str]) -> Path:
    """The file that `--config` names: a path, or the name of a preset where no file of that name is here.

    A value with a folder or an ending is always a path, so that a missing file of the user's is never replaced.

    Raises:
        SettingsError: neither a file nor a preset has that name.
    """
    path = Path(value)
    if path.name != str(value) or path.exists():
        return path
    if path.suffix:
        if path.stem in bundled() and path.suffix == _ENDING:
            raise SettingsError(f"--config: {path}: no such file; --config {path.stem} takes the preset of that name")
        return path
    if path.name not in bundled():
        close = difflib.get_close_matches(path.name, bundled(), n=1, cutoff=0.6)
        guess = f"did you mean {close[0]}?" if close else f"presets: {', '.join(bundled())}"
        raise SettingsError(f"--config: {path.name!r} is neither a file nor a preset; {guess}")
    return _FOLDER / f"{path.name}{_ENDING}"
