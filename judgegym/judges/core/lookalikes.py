"""Counts what a reader could take for one of a prompt's headings or markers, however it is written.

Texts are compared letter by letter in NFKC and without case, accents, format characters (such as zero-width spaces),
white space, markdown emphasis and punctuation; letters of other scripts that look like Latin ones count as these. One
more word beside a title changes nothing.

Guarantee: linear time on any text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from judgegym.llm.template_tokens import BREAK

_SIGNS = "[]#<|:"
"""What makes a heading of a title; all other punctuation but emphasis and quotation marks is left out."""
_EMPHASIS = "*"
_QUOTE = "'"  # `row["input"]` is code, and no heading
_ALIKE = {
    **dict.fromkeys("【〔〖〚⟦⟨❲「『", "["),
    **dict.fromkeys("】〕〗〛⟧⟩❳」』", "]"),
    **dict.fromkeys("_~`", _EMPHASIS),
    **dict.fromkeys("\"'“”‘’«»", _QUOTE),
    **dict.fromkeys("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\n"),
    **dict(zip("аеіјорсухѕһԁԛԝοι", "aeijopcyxshdqwoi", strict=True)),
}
_WORD = r"\w{0,12}"
_FORMAT = "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]*"
_WRITTEN = {"<": "[<＜﹤]", "|": "[|｜]", "[": r"[\[［]", "#": "[#＃﹟]", ":": "[:：﹕]"}


class _Folding(dict[int, "str | None"]):
    """What becomes of a character, by its code; computed at its first occurrence.

    `None` stands for nothing, because `str.translate` is many times slower on ASCII that becomes an empty string.
    """

    def __missing__(self, code: int) -> str | None:
        folded = "".join(map(self._fold, unicodedata.normalize("NFKD", chr(code)).casefold())) or None
        self[code] = folded
        return folded

    @staticmethod
    def _fold(character: str) -> str:
        if character in _ALIKE:
            return _ALIKE[character]
        return character if character.isalnum() or character in _SIGNS or character == _EMPHASIS else ""


_FOLDING = _Folding()
for _code in range(128):
    _ = _FOLDING[_code]
_NOT_ASCII = re.compile("([^\0-\x7f]+)")


class Lookalikes:
    """What a text needs to look like one of a prompt's markers.

    The patterns are compiled once. A title behind a sign is searched for from the text's end, because titles are rarer
    than signs, and a pattern costs time wherever it may begin. There is a pattern for each title, because one that
    begins with letters, and no choice of them, is searched for the fastest.

    >>> Lookalikes("<|", "end of answer").count("<| The END of the answer")
    2
    """

    def __init__(self, *forms: str) -> None:
        """Compile.

        Args:
            forms: a title, possibly behind `[` or `#` or before `:`, or signs alone, which must then be adjacent,
                because formulas have them with spaces.
        """
        self._signs: list[tuple[str, re.Pattern[str]]] = []
        self._titles: list[re.Pattern[str]] = []
        self._led: list[tuple[str, re.Pattern[str]]] = []
        for form in forms:
            title = form.lstrip(_SIGNS).removesuffix(":")
            folded = (word.translate(_FOLDING) for word in title.split())
            words = ["".join(map(re.escape, word)) for word in folded if word]
            if not words:
                written = (_WRITTEN.get(sign, re.escape(sign)) for sign in form)
                self._signs.append((form, re.compile(_FORMAT.join(written))))
                continue
            opening, _, colon = form.partition(title)
            if opening:
                backwards = _between(words).join(word[::-1] for word in reversed(words))
                pattern = rf"{backwards}\**{_WORD}[*\n]{{0,8}}{re.escape(opening)}"
                self._led.append((opening, re.compile(pattern)))
            else:
                self._titles.append(re.compile(_between(words).join(words) + (rf"{_WORD}\**:" if colon else "")))
            if opening.startswith("#"):  # a bold line is a heading, too
                bold = rf"\n\*{{2,8}}{_WORD}{_between(words).join(words)}{_WORD}[*:]{{0,8}}\n"
                self._titles.append(re.compile(bold))
        # One sign of each opening: a text without any of them has none of the openings.
        self._openings = {opening[0] for opening, _ in self._led}

    def count(self, text: str, *, shown: str | None = None) -> int:
        """How many lookalikes a text holds.

        Args:
            text: any text.
            shown: the text as it is shown, with broken tokens, whose signs are no suspects any more; by default the
                text.
        """
        count, is_ascii = 0, text.isascii()
        if self._signs:
            seen = (text if shown is None else shown).replace(BREAK, "!")
            for plain, pattern in self._signs:
                count += seen.count(plain) if seen.isascii() else len(pattern.findall(seen))
        if is_ascii and not self._titles and not any(sign in text for sign in self._openings):
            return count  # no sign of ASCII becomes another one
        # Runs of ASCII are translated apart, which is many times faster if they are long.
        runs = (text,) if is_ascii else _NOT_ASCII.split(text, len(text) // 64)
        folded = "".join(("\n", *(run.translate(_FOLDING) for run in runs), "\n"))
        for pattern in self._titles:
            count += len(pattern.findall(folded))
        led = [pattern for opening, pattern in self._led if opening in folded]
        backwards = folded[::-1] if led else ""
        for pattern in led:
            count += len(pattern.findall(backwards))
        return count


def _between(words: Sequence[str]) -> str:
    """What may stand between two words of a title: emphasis, and another word (in a long title a short one)."""
    return rf"[*\n']{{0,8}}\w{{0,{8 if len(words) < 3 else 4}}}?[*\n']{{0,8}}"
