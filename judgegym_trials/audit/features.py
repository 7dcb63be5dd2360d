"""Properties that should not sway a judge: length, form, keys, instructions, author."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from judgegym_trials.audit.settings import read_shipped

if TYPE_CHECKING:
    from judgegym.statistics.agreement import Floats

LENGTH, MARKDOWN, LIST = "length_bias", "markdown_bias", "list_bias"
KEY, INSTRUCTION, OWN = "master_key_bias", "instruction_bias", "self_preference"
"""Names of the checks that measure these properties' effects."""
STANDARDISED = frozenset({LENGTH, MARKDOWN, LIST})
"""Properties without a unit: their effect is for one standard deviation of the difference."""

_PATTERNS = read_shipped("properties.yaml")
_ITEM, _MARKUP = (re.compile(_PATTERNS[name], re.MULTILINE) for name in ("items", "markup"))
_KEYS, _INSTRUCTIONS = (
    re.compile("|".join(_PATTERNS[name]), re.IGNORECASE) for name in ("keys", "instructions")
)
_FAMILY_OF: dict[str, str] = {}
for _family, _names in _PATTERNS["families"].items():
    _FAMILY_OF |= dict.fromkeys(_names.split(), _family)
_TOKENS = re.compile(r"[a-z]+\d*")


def find_family(model: str) -> str:
    """Return a model's family by its name: its maker if known, otherwise the name's first word.

    >>> (
    ...     find_family("gpt-6-luna"),
    ...     find_family("meta-llama/Llama-3.1-8B"),
    ...     find_family("acme-7b"),
    ...     find_family(""),
    ... )
    ('openai', 'meta', 'acme', '')
    """
    base_name = model.rpartition("/")[2].casefold()
    for token in _TOKENS.findall(base_name):
        for name in (token, token.rstrip("0123456789")):
            if name in _FAMILY_OF:
                return str(_FAMILY_OF[name])
    return next(map(str, _TOKENS.findall(base_name)), "")


def measure_properties(text: str) -> Mapping[str, float]:
    """Measure the properties of a response's text."""
    items = len(_ITEM.findall(text))
    return {
        LENGTH: math.log1p(len(text)),
        MARKDOWN: math.log1p(len(_MARKUP.findall(text))),
        LIST: math.log1p(items),
        KEY: float(bool(_KEYS.search(text))),
        INSTRUCTION: float(bool(_INSTRUCTIONS.search(text))),
    }


def measure_features(
    rows: Sequence[Sequence[str]], models: Sequence[Sequence[str]], judge: str
) -> Mapping[str, Floats]:
    """Measure the properties of all responses, by name.

    Each is rows × the most responses, NaN where a row has fewer.

    Args:
        rows: each row's responses; without any text there are no properties.
        models: the model that wrote each response; the judge's name tells its own family.
        judge: the judge's name.
    """
    if not any(rows):
        return {}
    most = max(map(len, rows))
    judge_family = find_family(judge)
    properties = [[*map(measure_properties, texts)] for texts in rows]
    features = {
        name: pad_rows([[measured[name] for measured in of_row] for of_row in properties], most)
        for name in (LENGTH, MARKDOWN, LIST, KEY, INSTRUCTION)
    }
    if judge_family and any(models):
        is_own = [
            [float(find_family(name) == judge_family) if name else math.nan for name in names]
            for names in models
        ]
        features[OWN] = pad_rows(is_own, most)
    return features


def pad_rows(rows: Sequence[Sequence[float]], width: int) -> Floats:
    """Return the numbers as an array of this width.

    Short rows end with NaN; long ones are cut.
    """
    import numpy as np

    return np.array([[*row[:width], *[math.nan] * (width - len(row))] for row in rows], dtype=float)
