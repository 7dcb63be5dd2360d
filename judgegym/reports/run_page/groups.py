"""A group of `process` as an item of its page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from judgegym.engine.runs.recorded_calls import RecordedCall
from judgegym.judges.core.judgment import Status
from judgegym.judges.core.looks import looks_in_words, orders_in_words
from judgegym.llm import wire
from judgegym.reports.results.saved_group import SavedGroup, SavedJudgment
from judgegym.reports.run_page.calls import call_views
from judgegym.reports.run_page.figures import RowFigures
from judgegym.reports.run_page.items import CompletionView, ItemDetail, ItemSummary, NamedText

_START = 140
_ROLLOUT, _GROUP = "rollout_", "group"
_ANCHORS = ("baseline", "reference")
_JUDGES = {"listwise": "by a listwise judge", "tournament": "by a tournament"}


def figures_of(group: SavedGroup) -> Iterator[RowFigures]:
    """The numbers of each rollout; a score that stands in for another is none, and equal ones were shown once."""
    shown = set[str]()
    for score, rollout, is_substituted in zip(group.scores, group.rollouts, group.substituted, strict=True):
        yield RowFigures(
            category=None if group.row is None else group.row.category,
            status=Status.JUDGE_FAILED.value if is_substituted else Status.OK.value,
            score=None if is_substituted else score,
            total=None,
            weight=None,
            length=0 if rollout is None else len(rollout.content),
            seconds=0.0,
            judge_cost=None,
            looks=() if rollout is None or rollout.content in shown else rollout.judgment.seen,
        )
        if rollout is not None:
            shown.add(rollout.content)


def group_summary(number: int, group: SavedGroup, calls: Sequence[RecordedCall]) -> ItemSummary:
    """A group in the list. It took the seconds of its slowest judge call after those of the policy."""
    judge = [call for call in calls if is_judges(call)]
    policy = [call for call in calls if not is_judges(call)]
    labels = {rollout.judgment.label for rollout in group.rollouts if rollout is not None}
    failed = any(group.substituted)
    return ItemSummary(
        id=str(number),
        category=None if group.row is None else group.row.category,
        status=Status.JUDGE_FAILED.value if failed else Status.OK.value,
        label=labels.pop() if len(labels) == 1 else None,
        failed=failed,
        score=group.reward,
        value=group.reward,
        orders_disagree=None,
        length=round(fmean(figures.length for figures in figures_of(group))) if group.scores else 0,
        seconds=_longest(policy) + _longest(judge),
        judge_cost=_cost(judge),
        start=wire.shorten(group.question, _START),
    )


def group_detail(number: int, group: SavedGroup, calls: Sequence[RecordedCall]) -> ItemDetail:
    """What a group opens to."""
    failed = sum(group.substituted)
    return ItemDetail(
        id=str(number),
        error=f"the judge failed for {failed} of {len(group.scores)} rollouts" if failed else None,
        conversation=[NamedText(turn.role, turn.content) for turn in group.prompt],
        texts=[NamedText(title, text) for title, text in (group.row.texts if group.row is not None else {}).items()],
        completions=list(_completions(group, _by_rollout(calls))),
        calls=call_views(call for call in calls if not call.component.startswith(_ROLLOUT)),
        comparison=_comparison(group),
    )


def is_judges(call: RecordedCall) -> bool:
    """Whether a call of a group was made to judge one of its rollouts, or all of them together."""
    return call.component.startswith((_ROLLOUT, _GROUP))


def _by_rollout(calls: Iterable[RecordedCall]) -> Mapping[str, list[RecordedCall]]:
    found: dict[str, list[RecordedCall]] = {}
    for call in calls:
        if call.component.startswith(_ROLLOUT):
            found.setdefault(call.component.partition("/")[0], []).append(call)
    return found


def _completions(group: SavedGroup, calls: Mapping[str, list[RecordedCall]]) -> Iterator[CompletionView]:
    first_with: dict[str, int] = {}
    rollouts = zip(group.scores, group.rollouts, group.substituted, strict=True)
    for number, (score, rollout, failed) in enumerate(rollouts):
        if rollout is None:
            yield CompletionView(f"rollout {number + 1}", "", "", ["its text is not in the file"], score)
            continue
        judgment, its_calls, notes = rollout.judgment, calls.get(f"{_ROLLOUT}{number}", []), list[str]()
        same = first_with.setdefault(rollout.content, number)
        if failed:
            notes.append("the judge failed: the score is the mean of the others, and the advantage is zero")
        if same != number and not its_calls:
            notes.append(f"equal to rollout {same + 1}, and judged with it")
            its_calls = calls.get(f"{_ROLLOUT}{same}", [])
        yield CompletionView(
            title=f"rollout {number + 1}",
            text=rollout.content,
            thinking="",
            notes=notes,
            score=score,
            status=judgment.status or None,
            label=_label(judgment.label, score) if group.together is None else _compared_label(judgment),
            explanation=judgment.explanation,
            seen=looks_in_words(judgment.seen),
            calls=call_views(its_calls),
        )


def _comparison(group: SavedGroup) -> str:
    """How the rollouts were compared with each other, in words; empty if each was judged by itself."""
    together = group.together
    if together is None:
        return ""
    texts = group.row.texts if group.row is not None else {}
    anchor = next((f"the {title} (the anchor)" for title in _ANCHORS if title in texts), "the anchor")
    parts = [
        f"Compared with each other {_JUDGES.get(together.judge, together.judge)}, "
        f"in {together.calls} {'call' if together.calls == 1 else 'calls'}",
        "judged a second time, since a verdict was missing" if together.is_again else "",
        f"{anchor} is one more of them, as good as the middle of the rewards' range" if together.anchored else "",
        orders_in_words(together.orders),
    ]
    if together.judge == "tournament":
        parts.append("game_1_2 shows rollout 1 first" + (f", game_1_0 before {anchor}" if together.anchored else ""))
    return "; ".join(filter(None, parts)) + "."


def _label(label: str | None, score: float) -> str | None:
    """The label; a tie of two games of which one was tied, or of a strong and a weak verdict, is none."""
    if label == "tie" and score:
        return f"{'better' if score > 0 else 'worse'} than a tie"
    return label


def _compared_label(judgment: SavedJudgment) -> str | None:
    """The label; a listwise judge's is its score, before that is compared with the anchor's."""
    is_score = judgment.own is not None and judgment.label == f"{judgment.own:.3g}"
    return f"scored {judgment.label}" if is_score else judgment.label


def _longest(calls: Sequence[RecordedCall]) -> float:
    return max((call.answer.latency_s for call in calls), default=0.0)


def _cost(calls: Sequence[RecordedCall]) -> float | None:
    if not calls:
        return None
    costs = [call.answer.usage.cost for call in calls]
    return None if None in costs else sum(cost for cost in costs if cost is not None)
