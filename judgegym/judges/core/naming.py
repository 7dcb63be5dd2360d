"""Names as parts of other names: of metrics, files and paths."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Collection, Iterable

from judgegym.llm.errors import SettingsError

MAX_NAME_LENGTH = 80
"""Maximum number of a name's characters in a metric's name."""

_SEPARATOR = re.compile(r"[ /:]")
_UNSAFE_CHARACTERS = re.compile(r"[^\w.-]+")
_RESERVED_NAMES = re.compile(
    r"(ci_low|ci_high|before_critique|std|min|max|median|p\d+|played|failed|without_a_call|against_anchor)"
    r"|(cluster|category|by|freq)(_.*)?|.*_(ci_low|ci_high|before_critique)|.*_vs_.*",
    re.DOTALL,
)
"""Words that JudgeGym's own metrics have in the place of a name: `score_max`, `winrate_cluster_…`,
`…_ci_low`."""


def file_part(name: str) -> str:
    """Return a name as part of a file name: lower case, `_` for all but letters, digits, `.`, `-`.

    Different names may give the same part.
    """
    return _UNSAFE_CHARACTERS.sub("_", name.strip().lower()).strip("_") or "unnamed"


def slug(name: str) -> str:
    """Return a name as part of a metric's name; a function of the name alone.

    `Precise IF` becomes `precise_if`. If more than case and single separators would be lost
    (`C++`), if the name is long, or if one of JudgeGym's metrics could have that name (`CI low`),
    `~` and 8 digits of its SHA-256 digest follow. Two names have the same slug only if they differ
    in nothing but case and the separators ` `, `_`, `/` and `:`. `MetricNames` tells such names
    from data apart; in settings they are refused.
    """
    short = file_part(name)
    if (
        short == _SEPARATOR.sub("_", name.lower())
        and len(short) <= MAX_NAME_LENGTH
        and not _RESERVED_NAMES.fullmatch(short)
    ):
        return short
    return append_digest(name)


def append_digest(name: str) -> str:
    """Return a name as part of a metric's name, always with its digest."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    part = file_part(name)[:MAX_NAME_LENGTH]
    return f"{part}~{digest[:8]}"


def suggest_similar(word: str, choices: Iterable[str]) -> str:
    """Return ", did you mean …?" with the most similar choice, for the end of a message.

    It is empty if none is similar.
    """
    by_plain = {choice.casefold(): choice for choice in choices}
    close = difflib.get_close_matches(word.casefold(), list(by_plain), n=1, cutoff=0.6)
    if close:
        return f", did you mean {by_plain[close[0]]}?"
    return ""


def refuse_unknown(names: Iterable[object], known_names: Collection[str], *, prefix: str) -> None:
    """Check the names of settings.

    `prefix` stands before a name in messages, such as `reward_kwargs.`.

    Raises:
        SettingsError: a name is unknown; the message suggests the name that was probably meant, or
            lists all known ones.
    """
    for name in map(str, names):
        if name not in known_names:
            hint = (
                suggest_similar(name, known_names) or f"; expected one of {', '.join(known_names)}"
            )
            raise SettingsError(f"{prefix}{name}: unknown setting{hint}")


class MetricNames:
    """Names from data (categories, clusters) as parts of metric names; they stay different.

    A name's part is its slug. Names in the same data with the same slug (`Math` and `math`) get
    their digests.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Begin with the names of the data."""
        self._parts: dict[str, str] = {}
        self._by_slug: dict[str, set[str]] = {}
        self.add(names)

    def add(self, names: Iterable[str]) -> None:
        """Add names of the data."""
        for name in names:
            if name not in self._parts:
                self._parts[name] = slug(name)
                self._by_slug.setdefault(self._parts[name], set()).add(name)

    def __call__(self, name: str) -> str:
        """Return a name as part of a metric's name."""
        short = self._parts.get(name) or slug(name)
        if len(self._by_slug.get(short, ())) > 1:
            return append_digest(name)
        return short
