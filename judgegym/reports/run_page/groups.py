"""A group of `process` as an item of its page.

The page of a file of groups, from the file and from the run directory beside it, if there is one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from judgegym.engine import terminal
from judgegym.engine.runs.directory import read_settings, run_directory_of
from judgegym.engine.runs.recorded_calls import RecordedCall, read_calls
from judgegym.engine.settings.policy import STAND_IN_JUDGE, STAND_IN_POLICY
from judgegym.judges.core.group import OrderAgreement, looks_in_words, orders_in_words
from judgegym.judges.core.judgment import Status
from judgegym.llm import wire
from judgegym.llm.wire import JSON
from judgegym.reports.results.calls import CallsOfRows
from judgegym.reports.results.groups import SavedGroup, SavedJudgment, read_groups
from judgegym.reports.results.run import mapping_of
from judgegym.reports.run_page.charts import Words, by_place, charts
from judgegym.reports.run_page.figures import RunFigures, total_cost
from judgegym.reports.run_page.head import usable_seed, with_interval
from judgegym.reports.run_page.items import (
    CompletionView,
    Contents,
    Fact,
    ItemDetail,
    ItemSelection,
    ItemSummary,
    NamedText,
    PageHead,
    Rank,
    ReportOptions,
    call_views,
    choose,
)
from judgegym.statistics.agreement import ratio_interval

_START = 140
_ROLLOUT, _GROUP = "rollout_", "group"
_ANCHORS = ("baseline", "reference")
_JUDGES = {"listwise": "by a listwise judge", "tournament": "by a tournament"}


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
        length=round(fmean(0 if each is None else len(each.content) for each in group.rollouts)) if group.scores else 0,
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
            seen=looks_in_words(judgment.looks),
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
    return total_cost(call.answer.usage.cost for call in calls) if calls else None


_WORDS = Words("mean reward", item="rollout", score="reward", length="completion", intervals=False)


def group_contents(path: Path, options: ReportOptions) -> Contents:
    """Read a file of groups.

    Raises:
        RunDirectoryError: a line of it, or its run directory, is damaged.
    """
    run_path = run_directory_of(path)
    config = read_settings(run_path)
    figures, ranks, has_messages, orders = RunFigures(), list[Rank](), True, OrderAgreement()
    uids: list[str | None] = []
    totals, weights = array("d"), array("d")
    for group in read_groups(path):
        _add(figures, group)
        scores = [score for score, failed in zip(group.scores, group.substituted, strict=True) if not failed]
        if scores:
            totals.append(sum(scores))
            weights.append(len(scores))
        ranks.append(Rank(any(group.substituted), group.reward))
        has_messages = has_messages and group.messages is not None
        if group.together is not None:
            orders = OrderAgreement(
                orders.agreed + group.together.orders_agreed, orders.pairs + group.together.orders_pairs
            )
        uids.append(None if group.row is None else group.row.uid)
    for call in read_calls(run_path):
        if call.answer.latency_s and not call.answer.cached:
            (figures.judge_seconds if is_judges(call) else figures.policy_seconds).append(call.answer.latency_s)
    choice = choose(ranks, most=options.samples, order=options.order or "dataset", items="groups")
    seed = wire.lookup(config, "env.seed")
    page_head = PageHead(
        kind="groups",
        title=f"{path.stem}: groups of {wire.lookup(config, 'openai.model_name') or 'rollouts'}",
        headline=_headline(totals, weights, usable_seed(seed)),
        facts=_facts(config, len(ranks), figures, orders),
        notices=[*_notices(config, figures, has_messages=has_messages), *filter(None, [choice.notice])],
        charts=[*charts(figures, _WORDS, overall=None), *filter(None, [by_place(figures)])],
        total=len(ranks),
    )
    calls = CallsOfRows.read(run_path, {uid for place in choice.places if (uid := uids[place]) is not None})
    return Contents(page_head, lambda: _items(path, calls, choice))


def _add(figures: RunFigures, group: SavedGroup) -> None:
    """Add each rollout; a score that stands in for another is none, and equal rollouts were shown once."""
    shown = set[str]()
    for score, rollout, failed in zip(group.scores, group.rollouts, group.substituted, strict=True):
        text = None if rollout is None else rollout.content
        figures.add(
            status=Status.JUDGE_FAILED.value if failed else Status.OK.value,
            score=None if failed else score,
            length=len(text or ""),
            category=None if group.row is None else group.row.category,
            looks=() if rollout is None or text in shown else rollout.judgment.looks,
        )
        if text is not None:
            shown.add(text)


def _items(path: Path, calls: CallsOfRows, choice: ItemSelection) -> Iterator[tuple[ItemSummary, ItemDetail]]:
    """The items in their order; only if that is not the file's are all groups of the page in memory."""
    wanted = set(choice.places)
    groups = ((place, group) for place, group in enumerate(read_groups(path)) if place in wanted)
    if list(choice.places) != sorted(choice.places):
        at = dict(groups)
        groups = ((place, at[place]) for place in choice.places)
    for place, group in groups:
        its_calls = () if group.row is None else calls.of(group.row.uid, group.row.group)
        yield group_summary(place + 1, group, its_calls), group_detail(place + 1, group, its_calls)


def _headline(totals: array[float], weights: array[float], seed: int) -> str:
    """The mean reward; its interval is by resampling groups, whose rollouts are alike."""
    if not totals:
        return ""
    interval = ratio_interval(totals, weights, seed=seed) if len(totals) > 1 else None
    return f"mean reward {with_interval(sum(totals) / sum(weights), interval)}"


def _facts(config: Mapping[str, JSON], groups: int, figures: RunFigures, orders: OrderAgreement) -> list[Fact]:
    def said(name: str, setting: str, *, is_first: bool = False) -> Fact:
        value = wire.lookup(config, setting)
        return Fact(name, "" if value is None else str(value), is_first)

    is_together = wire.lookup(config, "env.group_judge") not in (None, "none")
    data = mapping_of(config.get("env"))
    found = [
        said("policy", "openai.model_name", is_first=True),
        said("judge", "env.judge_model_name", is_first=True),
        Fact("groups", f"{groups}, with {len(figures)} rollouts", is_first=True),
        said("judged together", "env.group_judge") if is_together else Fact("judged together", ""),
        Fact("orders", _agreement(orders), is_first=True),
        said("group size", "env.group_size"),
        said("temperature", "env.rollout_temperature"),
        said("seed", "env.seed"),
        *(Fact("data", f"{name}: {value}") for name, value in data.items() if name.endswith("dataset") and value),
    ]
    return [fact for fact in found if fact.value]


def _agreement(orders: OrderAgreement) -> str:
    return f"agree on {orders.agreed / orders.pairs:.1%} of {orders.pairs:,} pairs" if orders.pairs else ""


def _notices(config: Mapping[str, JSON], figures: RunFigures, *, has_messages: bool) -> list[str]:
    found = []
    names = {"judge": (STAND_IN_JUDGE, "env.judge_model_name"), "policy": (STAND_IN_POLICY, "openai.model_name")}
    stand_ins = [role for role, (name, setting) in names.items() if wire.lookup(config, setting) == name]
    if stand_ins:
        found.append(terminal.offline_notice(stand_ins))
    failed = sum(count for status, count in figures.statuses.items() if status != "ok")
    if failed:
        found.append(
            f"The judge failed for {failed} of {len(figures)} rollouts: their score is the mean of their group, their "
            "advantage is zero, and they are in no number on this page."
        )
    if not has_messages:
        found.append("The file has no texts: they are written with --env.include_messages=True.")
    return found
