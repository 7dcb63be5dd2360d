"""Verdicts that a text names without choosing them.

Four kinds are not chosen:

* a verdict joined to a different one by "or", "and", a comma or a slash alone, or in "between … and
  …";
* a verdict of a list that repeats the options of the prompt, or of its example;
* a verdict after "not", "neither" or "instead of";
* a verdict that differs from an earlier one, if a role token or a heading of a judge's prompt is
  between them: the text has run on into an invented next task.

All others are chosen: "first [[A]], but after checking [[B]]" chooses the B.

The joining words are those of English, and the plain ones of German, French, Spanish, Italian,
Portuguese, Dutch, Swedish, Polish, Russian, Turkish, Indonesian, Vietnamese, Chinese, Japanese and
Korean.

Guarantee: linear time on any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from judgegym.judges.parsing.verdict_parser import Place


class Mention(NamedTuple):
    """Candidate reduced to what a choice depends on.

    Attributes:
        at: its place.
        differs: it states another value than the verdict in question.
        is_label: it is written as a label, not only named in a sentence.
        is_verdict: it is a label whose value the parser knows.
        rank: its place in the list of options; `None` without one.
    """

    at: Place
    differs: bool
    is_label: bool
    is_verdict: bool
    rank: int | None = None


_PAD = r"[\s\"'“”‘’«»„*_`()\[\]{}<>\\$#.…\ufffd]{0,12}"
"""White space, markup, brackets and quotation marks, which change nothing."""
_OR_IN_WORDS = (
    r"(?:(?<!\w)(?:or|nor|oder|ou|ni|albo|lub|czy|или|либо|veya|atau|hoặc)(?!\w)|"
    r"或者|或|还是|または|もしくは|또는|혹은)"
)
_OR = (
    r"(?:(?<!\w)(?:or|nor|oder|noch|bzw\.|ou|ni|o|u|né|of|eller|albo|lub|czy|или|либо|veya|ya\sda"
    r"|atau|hoặc|vs\.?|versus|"
    r"and\s?/\s?or)(?!\w)|或者|或|还是|または|もしくは|か|또는|혹은|/|\|)"
)
_AND = (
    r"(?:(?<!\w)(?:and|und|et|y|e|en|och|og|i|oraz|и|ve|dan|và|as\swell\sas|through)(?!\w)|"
    r"和|与|及|と|や|와|과|그리고|및|&|\+)"
)
_HEDGE = (
    r"even|also|else|maybe|perhaps|possibly|arguably|probably|just|at\s(?:most|least|best|worst)"
    r"|both|equally|either|"
    r"neither|too|as\swell|a|an|the|vielleicht|auch|peut-être|aussi|quizás|también|forse|anche"
)
_LOOSELY = (
    rf"{_HEDGE}|is|it|this|that|one|could|can|might|may|would|should|be|label|verdict|my|well"
)
_COMMA = r"[,;、，；–—-]|\.{3}|…"
_JOINED = re.compile(
    rf"{_PAD}(?:-?\d+(?:\.\d+)?{_PAD})?(?:{_COMMA})?{_PAD}"
    rf"(?:{_OR}(?:[\s,]+(?:{_LOOSELY}))*|{_AND}(?:[\s,]+(?:{_HEDGE}))*)[\s,]{{0,3}}{_PAD}",
    re.IGNORECASE,
)
"""Between two candidates: "or" or "and", perhaps with a hedge."""
_LISTED = re.compile(
    rf"{_PAD}(?:-?\d+{_PAD})?(?:{_COMMA}){_PAD}(?:(?:{_HEDGE})[\s,]*){{0,3}}{_PAD}", re.IGNORECASE
)
"""Between two labels: nothing but a comma or a dash."""

_DECIDED = re.compile(
    r"\b(?:so|therefore|thus|hence|but|however|yet|rather|instead|conclu\w+|choose|chose|pick"
    r"|settle\w*|decid\w+|select|"
    r"prefer\w*|actually|correction|corrected|revis\w+|reconsider\w*|chang\w+|now|then|ultimately"
    r"|finally|wait|after\w*|"
    r"upon|I|reflection|daher|deshalb|aber|insgesamt|donc|mais|finalement|entonces|pero|finalmente"
    r"|поэтому|но)\b|"
    r"因此|所以|但|最后|したがって|しかし|따라서",
    re.IGNORECASE,
)
"""Words that announce a choice."""
_SUMMED_UP = re.compile(
    rf"{_DECIDED.pattern}|\b(?:final|overall|verdict|summary|total|result|judge?ment|decision"
    r"|choice|feedback|altogether|winner|"
    r"endgültig\w*|urteil|fazit|gesamt\w*|bilan|итог\w*|вердикт)\b|最终|结论|結果|最後|結論|最終|결론|최종",
    re.IGNORECASE,
)
"""The same, or the name of a verdict on the whole."""
_REMARK = re.compile(
    rf"{_PAD}(?:if|when|where|for|in\scase|because|since|on|in\sterms\sof|means|meaning|indicates"
    r"|denotes|=|:|-|–|wenn|"
    rf"für|si|pour|para|因|如果|表示)(?![a-z])[^.!?\n]{{0,100}}?"
    rf"(?:[,;，；]|(?<!\w)(?:otherwise|else|sonst|sinon)(?!\w)|{_OR}|{_AND})(?:[\s,]|otherwise|else"
    rf"|{_OR}|{_AND}){{0,6}}{_PAD}",
    re.IGNORECASE,
)
"""Between two options: a meaning of the first one, and a comma, "and" or "or"."""
_ALTERNATIVE = re.compile(
    rf"{_PAD},?\s?(?:{_OR_IN_WORDS}(?!\s?,?\s?(?:better|more)\b)|(?:{_AND}\s|otherwise,?\s)?(?:if"
    r"|when|for|in\sterms\sof|wenn|für|si|pour|para)\b)"
    r"[^.!?]{0,80}",
    re.IGNORECASE,
)
"""Between two labels: "or" and more words, or the case in which the second one would be chosen."""
_ASIDE = re.compile(r"\s*\([^()\n]{1,80}\)")
_CONDITION = re.compile(
    rf"{_PAD}(?:if|when|wenn|si)\s(?:the\s)?(?:(?:assistant|answer|response|model|option|submission"
    r"|it|both|neither)\b|"
    rf"[A-Z]\s(?:is|was|wins|ist|est|es)\b)[^.\n]{{0,40}}\b(?:better|best|worse|equal\w*|tied?"
    r"|correct|met|meets|wins)\b"
)
"""Behind an option of the prompt: when it would be chosen."""
_NEGATED = re.compile(
    r"(?:\b(?:not|never|neither|nor|cannot|hardly|without|rather\sthan|instead\sof|no\slonger"
    r"|other\sthan|anything\sbut|"
    r"nicht|kein\w*|weder|noch|statt|pas|plutôt\sque|no\ses|ni|non\sè|né|não\sé|nem|niet|geen|inte"
    r"|varken|nie|"
    r"ani|не|ни|bukan|không\sphải)|n['’]t)"
    r"(?:(?:[ \"'“”‘’*_`(]+(?:an?|the|my|our|this|that|it|be|been|is|was|are|as|at|all|to|of|"
    r"for|with|say|saying|think|thinking|believe|call|give|giving|award|assign|choose|choosing|pick"
    r"|picking|select|go|"
    r"final|overall|verdict|labels?|choice|decision|option|clear|clearly|case|clear-cut|necessarily"
    r"|really|quite|simply|"
    r"exactly|sure|certain|convinced|whether|if|should|would|will|could|can|must|even|either"
    r"|justify|support|read|"
    r"das|die|der|ein|eine|es|ist|urteil|pas|es|el|la|è|é|это|вердикт))*|:)[ \"'“”‘’*_`(\[]{0,6}\Z"
    r"|(?:不是|并非|不选|不能选|而不是|既不是|也不是)[ \"'“”*_`(]{0,4}\Z",
    re.IGNORECASE,
)
"""Before a label: a negation, with nothing between them that says something of its own."""
_DENIED = re.compile(
    rf"{_PAD}(?:(?:is|was|would\sbe|are|seems)\s(?:simply\s|just\s|clearly\s)?(?:wrong|incorrect"
    r"|unjustified|untenable)\b"
    r"|(?:(?:is|was|would\sbe)\s(?:simply\s|just\s|clearly\s)?not|(?:is|was|would)n['’]t|(?:cannot"
    r"|can['’]t)\s(?:be|stand))"
    r"(?:(?:\s\w+){0,3}?\s(?:verdict|right|correct|justified|fair|warranted|supported|it|what"
    r"|answer|choice|best)\b"
    r"|\s*(?:[.,;!\n]|\Z)))"
    r"|[ \"'”*_`]*(?:ではない|ではありません|じゃない|でもない|이\s?아니|가\s?아니|도\s?아니|değil|nicht\b|"
    r"est\sfaux|es\sfalso)",
    re.IGNORECASE,
)
"""Behind a label: it is denied."""
_COMPARED = re.compile(
    r"\b(?:than|over|beats|outperforms|against|versus|vs\.?|compared\s(?:to|with)|from|unlike|als"
    r"|que|di|чем)"
    r"[ \"'“”*_`(]{1,6}\Z",
    re.IGNORECASE,
)
"""Before a label: the other one is preferred to it."""
_HEDGED = re.compile(
    rf"(?:{_OR_IN_WORDS}|(?<!\w)(?:(?:could|might|may|can)(?:\s(?:also|well|just\sas\swell"
    r"|equally))*\sbe|perhaps|maybe|possibly|"
    r"otherwise|else|as\swell\sas))(?:\s(?:it|this|that|is|could|might|may|be|a|an|even"
    rf"|also))*,?{_PAD}\Z",
    re.IGNORECASE,
)
"""Before a label: it is another possibility."""
_BOTH = re.compile(
    r"\b(?:between|both|either|zwischen|sowohl|entre|tra|fra|tussen|mellan|między|между|antara"
    r"|giữa)\b",
    re.IGNORECASE,
)
_AND_BEFORE = re.compile(
    rf"(?:(?<!\w)(?:and|und|et|en|och|и|ve)(?!\w)|和|与|と|와|과)(?:\s(?:an?|the|also|even))*{_PAD}\Z",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"(?:(?m:^)[\W_]*(?:(?:an?|the|for)\s)?examples?(?:\s(?:output|answer|verdict|format"
    r"|of\s[^:\n]{1,30}))?\W{0,4}:"
    r"|\b(?:for\sexample|for\sinstance|e\.g\.|such\sas)[,:]?)(?P<rest>[^.!?\n]{0,80})\Z",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n")
_ITEM = re.compile(r"[\s>*_]{0,6}(?:\(?(?:\d{1,2}|[a-e])[.)]|[-*•–+])[\s*_]+")
_SHAPE = re.compile(r"\d+|\b[a-e]\b|[^\w\s]|_", re.IGNORECASE)
_GLOSS = re.compile(r"[\s\"'”*_`)]{0,6}[:=–→-]\s")
_LONGEST_SENTENCE = 300
_LONGEST_GAP = 200
_FEWEST_OPTIONS = 3

_TITLE = (
    r"(?:user|human|assistant|system|developer|(?:the\s)?(?:start|beginning"
    r"|end)\sof\s[^\[\]|:#\n]{1,60}|"
    r"(?:(?:the|a|next|new|another|your|given|user|score|task|candidate|previous)\s)*(?:task"
    r"|instructions?|"
    r"question|query|prompt|input|submission|response|answer|output|problem|example|rubrics?"
    r"|criteria|criterion|context|reference(?:\s(?:answer|response))?|"
    r"description|evaluation|judge?ment)(?:\sto\sevaluate|\sfor\sall\sanswers"
    r"|:\s\w+\s\w+)?(?:\s\([^()\n]{1,40}\))?)"
    r"(?:\s\d{1,3})?(?:\s[a-z]{5})?(?:\s[0-9a-f]{12})?"
)
"""Role or title of a section, perhaps with a number, an answer's id and a delimiter's tag."""
_BOUNDARY = re.compile(
    rf"(?m:^)[\s>*_]{{0,6}}{_TITLE}[*_]{{0,3}}\s?:"
    rf"|(?m:^)[\s>*_]{{0,6}}\#{{1,6}}\s?[*_]{{0,3}}{_TITLE}[*_]{{0,3}}:?[*_]{{0,3}}[ \t]*(?m:$)"
    rf"|\[{_TITLE}\]|<[|｜][^|｜<>\n]{{1,80}}[|｜]>|<(?:start|end)_of_turn>|<turn\||<\|turn>|</?s>"
    r"|<eos>|<bos>|"
    r"\[/?INST\]|<</?SYS>>|(?<=[\s.\])}*])(?-i:User|Human|Assistant|USER|ASSISTANT)\s?:\s",
    re.IGNORECASE,
)
"""A role token, or a heading of a judge's prompt, which may begin an invented next task."""


def is_unchosen(
    words: str, last: Mention, earlier: Sequence[Mention], headings: re.Pattern[str] | None = None
) -> bool:
    """Return whether a text names its last verdict without choosing it.

    Args:
        words: the text, with blanks instead of objects.
        last: the last verdict.
        earlier: the candidates before it, in order.
        headings: headings of the judge's prompt, besides the usual ones.
    """
    start, end = last.at
    before = _sentence_before(words, start)
    if (
        _NEGATED.search(before)
        or _DENIED.match(words, end)
        or _CONDITION.match(words, end)
        or _is_example(words, start)
    ):
        return True
    earlier = _outermost(mention for mention in earlier if mention.at[1] <= start)
    others = [differing for differing in earlier if differing.differs]
    return bool(others) and (
        _is_joined(words, last, earlier)
        or _is_alternative(before, start, others)
        or _is_listed(words, last, earlier)
        or _has_invented_task(words, start, others, headings)
    )


def _outermost(mentions: Iterable[Mention]) -> list[Mention]:
    """Return the mentions that are not part of an earlier one."""
    outermost: list[Mention] = []
    for mention in mentions:
        if not outermost or mention.at[0] >= outermost[-1].at[1]:
            outermost.append(mention)
    return outermost


def _sentence_before(words: str, start: int) -> str:
    """Return the text before a place in its sentence."""
    return _SENTENCE_END.split(words[max(0, start - _LONGEST_SENTENCE) : start])[-1]


def _is_example(words: str, start: int) -> bool:
    line = words[max(words.rfind("\n", 0, start) + 1, start - _LONGEST_SENTENCE) : start]
    match = _EXAMPLE.search(line)
    return match is not None and (
        match[0].rstrip().endswith(":") or ":" in match[0] or not _DECIDED.search(match["rest"])
    )


def _is_joined(words: str, last: Mention, earlier: Sequence[Mention]) -> bool:
    """Return whether the verdict is joined to another, perhaps through its repetitions."""
    following = last
    for mention in reversed(earlier):
        gap = words[mention.at[1] : following.at[0]]
        is_joined = len(gap) <= _LONGEST_GAP and _joins_verdicts(gap, is_label=mention.is_label)
        if is_joined and mention.differs:
            return True
        if is_joined:
            following = mention
        elif mention.is_label:
            return False
    return False


def _joins_verdicts(gap: str, *, is_label: bool) -> bool:
    plain = _ASIDE.sub("", gap)
    if _JOINED.fullmatch(plain):
        return True
    if not is_label:
        return False
    is_option = _REMARK.fullmatch(gap) or _ALTERNATIVE.fullmatch(gap)
    return _LISTED.fullmatch(plain) is not None or (
        is_option is not None and _DECIDED.search(gap) is None
    )


def _is_alternative(before: str, start: int, others: Sequence[Mention]) -> bool:
    """Return whether the sentence names another verdict first.

    This one then follows "or", or stands in "between … and".
    """
    offset = start - len(before)
    first = next((mention.at[0] - offset for mention in others if mention.at[0] >= offset), None)
    if first is None:
        compared = False
    elif _HEDGED.search(before) or (_AND_BEFORE.search(before) and _BOTH.search(before, 0, first)):
        return True
    else:
        compared = _COMPARED.search(before) is not None
    return compared


def _is_listed(words: str, last: Mention, earlier: Sequence[Mention]) -> bool:
    """Return whether the verdict is the last of a list of options, one a line."""
    run = [last]
    for mention in reversed(earlier):
        if not mention.is_verdict:
            continue
        if not _are_items(words, mention, run[-1]) or _SUMMED_UP.search(
            _split_line(words, last)[1]
        ):
            break
        run.append(mention)
    if len(run) < 2 or not any(item.differs for item in run):
        return False
    if _line_has_shape(words, last) and not _is_marked(words, last):
        return True
    ranks = [listed.rank for listed in run]
    if len({*ranks}) < _FEWEST_OPTIONS or None in ranks:
        return False
    steps = {(later or 0) - (former or 0) for former, later in pairwise(ranks)}
    return _is_marked(words, last) or steps in ({1}, {-1})


def _are_items(words: str, first: Mention, second: Mention) -> bool:
    """Return whether two verdicts are items of one list.

    The later one must not be announced as the choice.
    """
    gap = words[first.at[1] : second.at[0]]
    if "\n" not in gap or len(gap) > _LONGEST_GAP or _SUMMED_UP.search(gap):
        return False
    if _is_marked(words, first) and _is_marked(words, second):
        return gap.strip().count("\n\n") <= 1
    (head, tail), (last_head, last_tail) = _split_line(words, first), _split_line(words, second)
    is_glossary = (
        not head.strip()
        and not last_head.strip()
        and bool(_GLOSS.match(tail) and _GLOSS.match(last_tail))
    )
    return gap.count("\n") == 1 and (
        is_glossary or _line_shape(words, first) == _line_shape(words, second)
    )


def _is_marked(words: str, mention: Mention) -> bool:
    return _ITEM.match(_split_line(words, mention)[0]) is not None


def _line_has_shape(words: str, mention: Mention) -> bool:
    return any(_line_shape(words, mention))


def _split_line(words: str, mention: Mention) -> tuple[str, str]:
    start, end = mention.at
    line_start = max(words.rfind("\n", 0, start) + 1, start - _LONGEST_GAP)
    line_end = words.find("\n", end)
    if line_end < 0:
        line_end = len(words)
    return words[line_start:start], words[end : min(line_end, end + _LONGEST_GAP)]


def _line_shape(words: str, mention: Mention) -> tuple[str, ...]:
    """Return the words around a verdict in its line, without numbers and option letters."""
    return tuple(
        " ".join(_SHAPE.sub(" ", part).lower().split()) for part in _split_line(words, mention)
    )


def _has_invented_task(
    words: str, start: int, others: Sequence[Mention], headings: re.Pattern[str] | None
) -> bool:
    """Return whether a next task begins between another full verdict and this one."""
    first = next((mention.at[1] for mention in others if mention.is_verdict), None)
    boundaries = filter(None, (_BOUNDARY, headings))
    return first is not None and any(
        boundary.search(words, first, start) is not None for boundary in boundaries
    )
