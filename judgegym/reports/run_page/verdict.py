"""The verdict on a row in words, and the judge's texts: what the opened row shows first.

It is read from the detail of the judgment, by the fields that `docs/run_files.md` names; a detail of another form has
its label alone. Whatever a file holds, nothing here fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from judgegym.engine.records import Sample
from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.reports.run_page.items import NamedText

_PLACES = {"model_is_a": "A", "model_is_b": "B"}
_MOST_VOTES = 12


def gold_differs(sample: Sample[JSON]) -> bool | None:
    """Whether the judge said anything else than a gold label of the row; `None` without a gold label and a verdict."""
    known = [label.agrees for label in sample.gold if label.agrees is not None]
    return not all(known) if known else None


def verdict_in_words(sample: Sample[JSON]) -> list[str]:
    """What was found about a row, a sentence for each part of it."""
    gold = [_gold(label.name, label.gold, label.judge, label.agrees) for label in sample.gold]
    said = [*_games(_list(sample.detail, "games")), *gold, *_details(sample.detail, has_gold=bool(gold))]
    if not said and sample.label is not None:
        return [f"The judgment is {sample.label}."]
    return said


def texts_of_judge(sample: Sample[JSON]) -> list[NamedText]:
    """The texts in which the judge gave the verdict; where the policy is the judge, its answers."""
    found = [text for text in _texts(sample.detail) if text.text]
    if found or not sample.gold:
        return found
    names = [label.name.replace("_", " ") for label in sample.gold]
    titles = [f"the policy as judge{f', {name}' if name else ''}" for name in names]
    if len(titles) != len(sample.completions):  # several votes
        titles = [f"the policy as judge, {number + 1}" for number in range(len(sample.completions))]
    return [NamedText(title, each.answer) for title, each in zip(titles, sample.completions, strict=True)]


def _gold(name: str, gold: str | float, judge: str | float | None, agrees: bool | None) -> str:
    prefix = f"{name.replace('_', ' ')}: " if name else ""
    if judge is None:
        return f"{prefix}no verdict; gold is {_shown(gold)}."
    words = "and so does gold" if agrees else f"and gold says {_shown(gold)}"
    return f"{prefix}the judge says {_shown(judge)}, {words}."


def _shown(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _games(games: Sequence[Mapping[str, JSON]]) -> Iterator[str]:
    """Both games of a pair in one sentence, such as "Lost both: as A the judge chose B; as B it chose A"."""
    played = [(_PLACES[order], game) for game in games if (order := str(game.get("order"))) in _PLACES]
    if not played:
        return
    results = {_result(place, game.get("label")) for place, game in played}
    each = [f"as {place} {_chose(game.get('label'))}" for place, game in played]
    count = "both" if len(played) == 2 else "all" if len(played) > 2 else "it"
    words = {"won": f"Won {count}", "lost": f"Lost {count}", "tied": f"Tied {count}"}
    single = results.pop() if len(results) == 1 else ""
    beginning = words.get(single, "No verdict" if single == "none" else "The orders disagree")
    if "none" in results:
        beginning = "Not both have a verdict"
    yield f"{beginning}: {'; '.join(each)}.".replace("it chose", "the judge chose", 1)


def _result(place: str, label: JSON) -> str:
    if not isinstance(label, str) or not set(label) >= {"A", "B"}:
        return "none"
    if "=" in label:
        return "tied"
    return "won" if label.startswith(place) == (">" in label) else "lost"


def _chose(label: JSON) -> str:
    if not isinstance(label, str):
        return "there is no verdict"
    if "=" in label:
        return f"it chose neither ({label})"
    first, second = label[:1], label[-1:]
    return f"it chose {first if '>' in label else second} ({label})"


def _details(detail: JSON, *, has_gold: bool) -> Iterator[str]:
    """Verdicts on aspects with their votes, scores by a rubric, ratings; a single one is not said again after gold."""
    for aspect in _list(detail, "aspects"):
        votes = _list(aspect, "votes")
        if has_gold and len(votes) == 1:
            continue
        yes = sum(vote.get("yes") is True for vote in votes)
        no = sum(vote.get("yes") is False for vote in votes)
        found = aspect.get("yes")
        words = "no majority" if found is None else "yes" if found is True else "no"
        count = f" ({yes} yes, {no} no, of {len(votes)} votes)" if len(votes) > 1 else ""
        yield f"{aspect.get('aspect')}: {words}{count}."
    vetoed_by = wire.lookup(detail, "vetoed_by")
    if isinstance(vetoed_by, str):
        yield f"Vetoed by {vetoed_by}: the score is 0."
    scores = [_score(each) for each in _list(detail, "judgments")]
    if scores and not (has_gold and len(scores) == 1):
        yield f"{'Score' if len(scores) == 1 else 'Scores'}: {', '.join(scores)}."
    ratings, right = wire.lookup(detail, "ratings"), wire.lookup(detail, "num_correct")
    if isinstance(ratings, list) and ratings and isinstance(right, int):
        shown = ["–" if each is None else str(each) for each in ratings]
        yield f"Ratings of the right answers: {', '.join(shown[:right])}; of the others: {', '.join(shown[right:])}."


def _score(judgment: Mapping[str, JSON]) -> str:
    found = judgment.get("score")
    found = judgment.get("expected") if found is None else found
    return f"{found:g}" if isinstance(found, int | float) else "none"


def _texts(detail: JSON) -> Iterator[NamedText]:
    for game in _list(detail, "games"):
        if str(game.get("order")) in _PLACES:
            place, label = _PLACES[str(game.get("order"))], game.get("label")
            yield NamedText(f"judge, the answer as {place}{f': {label}' if label else ''}", _text(game.get("text")))
    for aspect in _list(detail, "aspects"):
        votes = _list(aspect, "votes")[:_MOST_VOTES]
        for number, vote in enumerate(votes, start=1):
            title = f"judge on {aspect.get('aspect')}" + (f", vote {number}" if len(votes) > 1 else "")
            yield NamedText(title, _text(vote.get("text")))
    judgments = _list(detail, "judgments")
    for number, judgment in enumerate(judgments, start=1):
        yield NamedText(f"judge, {number}" if len(judgments) > 1 else "judge", _text(judgment.get("text")))
    yield NamedText("explanation of the judge", _text(wire.lookup(detail, "explanation")))


def _list(value: JSON, name: str) -> Sequence[Mapping[str, JSON]]:
    found = value.get(name) if isinstance(value, Mapping) else None
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""
