"""Names as part of other names: of metrics, files and paths."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Collection, Iterable

from judgegym.llm.errors import SettingsError

MAX_NAME_LENGTH = 80
"""Characters of a name that a metric's name holds unchanged."""

_SEPARATOR = re.compile(r"[ /:]")
_UNSAFE_CHARACTERS = re.compile(r"[^\w.-]+")
_RESERVED_NAMES = re.compile(
    r"(ci_low|ci_high|before_critique|std|min|max|median|p\d+|played|failed|without_a_call|against_anchor)"
    r"|(cluster|category|by|freq)(_.*)?|.*_(ci_low|ci_high|before_critique)|.*_vs_.*",
    re.DOTALL,
)
"""What metrics of ours have in the place of a name: `score_max`, `winrate_cluster_…`, `…_ci_low`."""


def file_part(name: str) -> str:
    """Return a name as part of a file's name: lower case, `_` for all but letters, digits, `.` and `-`.

    Different names may become the same part.
    """
    return _UNSAFE_CHARACTERS.sub("_", name.strip().lower()).strip("_") or "unnamed"


def slug(name: str) -> str:
    """Return a name as part of a metric's name; a function of the name alone.

    `Precise IF` becomes `precise_if`. Where more is lost than case and single separators (`C++`),
    where the name is long, or where a metric of ours could have that name (`CI low`), `~` and 8
    digits of its SHA-256 digest follow. Two names have the same slug only if they differ in nothing
    but case and in the separators ` `, `_`, `/` and `:`. Names from data may do so, and are told
    apart by `MetricNames`; of settings such names are refused.
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
    return f"{file_part(name)[:MAX_NAME_LENGTH]}~{digest[:8]}"


def suggest_similar(word: str, choices: Iterable[str]) -> str:
    """Return the most similar of the words, for the end of a message; empty if none is similar."""
    by_plain = {choice.casefold(): choice for choice in choices}
    close = difflib.get_close_matches(word.casefold(), list(by_plain), n=1, cutoff=0.6)
    return f", did you mean {by_plain[close[0]]}?" if close else ""


def refuse_unknown(names: Iterable[object], known_names: Collection[str], *, prefix: str) -> None:
    """Check the names of settings; `prefix` is what stands before one in a message, such as `reward_kwargs.`.

    Raises:
        SettingsError: one is not known; the message has the name that was probably meant, or all
            that are known.
    """
    for name in map(str, names):
        if name not in known_names:
            hint = (
                suggest_similar(name, known_names) or f"; expected one of {', '.join(known_names)}"
            )
            raise SettingsError(f"{prefix}{name}: unknown setting{hint}")


class MetricNames:
    """The names from data (categories, clusters) as parts of metrics' names; different names stay different.

    A name's part is its slug. Names of the same data that have the same slug (`Math` and `math`)
    get their digests.
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
        return append_digest(name) if len(self._by_slug.get(short, ())) > 1 else short
