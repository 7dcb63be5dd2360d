"""Build the page of a file of groups, from the file and its run directory, if there is one."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from judgegym.engine import terminal
from judgegym.engine.runs.directory import locate_run_directory, read_settings
from judgegym.engine.runs.recorded_calls import RecordedCall, read_calls
from judgegym.engine.settings.policy import STAND_IN_JUDGE, STAND_IN_POLICY
from judgegym.judges.core.group import describe_looks, describe_orders
from judgegym.judges.core.judgment import Status
from judgegym.judges.listwise.prompt import ListwiseJudgeSettings
from judgegym.judges.scorers.registry import built_in_kind
from judgegym.judges.tournament.schedule import TournamentSettings
from judgegym.llm import wire
from judgegym.llm.wire import JSON, mapping_or_empty
from judgegym.reports.results.calls import CallsOfRows
from judgegym.reports.results.groups import SavedGroup, read_groups
from judgegym.reports.run_page.charts import ChartLabels, draw_charts, plot_by_position
from judgegym.reports.run_page.figures import RunFigures, total_cost
from judgegym.reports.run_page.head import Facts, format_with_interval
from judgegym.reports.run_page.items import (
    MOST_ITEMS,
    START,
    Item,
    View,
    call_views,
    choose_items,
    completion_view,
    rank,
    titled_text,
)
from judgegym.statistics import percent
from judgegym.statistics.intervals import mean_interval

_ROLLOUT, _GROUP = "rollout_", "group"
_ANCHORS = ("baseline", "reference")
_TOURNAMENT = built_in_kind(TournamentSettings)
_JUDGES = {
    built_in_kind(ListwiseJudgeSettings): "by a listwise judge",
    _TOURNAMENT: "by a tournament",
}
_WORDS = ChartLabels(
    "mean reward", item="rollout", score="reward", length="completion", intervals=False
)


def read_group_page(
    path: Path, *, order: str | None = None, most: int | None = MOST_ITEMS
) -> tuple[View, Callable[[], Iterator[Item]]]:
    """Read a file of groups: the head of its page, and a function that reads its items.

    Args:
        path: the file.
        order: the order of the items; by default that of the file.
        most: the most items of the page; `None` for all.

    Raises:
        RunDirectoryError: a line, or the run directory, is damaged.
    """
    run_path = locate_run_directory(path)
    config = read_settings(run_path)
    figures = RunFigures()
    ranks = []
    has_messages = True
    agreed = 0
    pairs = 0
    uids: list[str | None] = []
    totals, weights = array("d"), array("d")
    for group in read_groups(path):
        _add_rollouts(figures, group)
        scores = [
            score
            for score, failed in zip(group.scores, group.substituted, strict=True)
            if not failed
        ]
        if scores:
            totals.append(sum(scores))
            weights.append(len(scores))
        ranks.append(rank(any(group.failed), group.reward))
        has_messages = has_messages and group.messages is not None
        if group.together is not None:
            agreed += group.together.orders_agreed
            pairs += group.together.orders_pairs
        uids.append(None if group.row is None else group.row.uid)
    for call in read_calls(run_path):
        if (
            call.answer.latency_s
            and not call.answer.cached
            and (call.is_policy_call or _is_judge_call(call))
        ):
            (figures.judge_seconds if _is_judge_call(call) else figures.policy_seconds).append(
                call.answer.latency_s
            )
    indices, notices = choose_items(ranks, most=most, order=order or "dataset", items="groups")
    headline = ""
    if totals:  # the interval is over groups, since their rollouts depend on each other
        interval = mean_interval(totals, weights)
        headline = f"mean reward {format_with_interval(sum(totals) / sum(weights), interval)}"
    first = [
        *_lookup_settings(config, {"policy": "openai.model_name", "judge": "env.judge_model_name"}),
        ("groups", f"{len(ranks)}, with {len(figures)} rollouts"),
    ]
    if pairs:
        share = percent(agreed / pairs)
        first.append(("orders", f"agree on {share} of {pairs:,} pairs"))
    policy = wire.lookup(config, "openai.model_name") or "rollouts"
    head = {
        "kind": "groups",
        "title": f"{path.stem}: groups of {policy}",
        "headline": headline,
        "first_facts": first,
        "facts": _run_facts(config),
        "notices": [*_list_notices(config, figures, has_messages=has_messages), *notices],
        "charts": [
            *draw_charts(figures, _WORDS, overall=None),
            *filter(None, [plot_by_position(figures)]),
        ],
        "total": len(ranks),
        "tables": (),
    }
    calls = CallsOfRows.read(
        run_path, {uid for index in indices if (uid := uids[index]) is not None}
    )
    return head, lambda: _iter_items(path, calls, indices)


def _add_rollouts(figures: RunFigures, group: SavedGroup) -> None:
    """Add each rollout; a failed judge gives no score, and equal rollouts were shown once."""
    texts_added = set[str]()
    rollouts = zip(group.scores, group.rollouts, group.substituted, group.failed, strict=True)
    for score, rollout, has_none, failed in rollouts:
        if has_none and not failed:  # it had ended before this turn
            continue
        text = None if rollout is None else rollout.content
        figures.add(
            status=(Status.JUDGE_FAILED if failed else Status.OK).value,
            score=None if failed else score,
            length=len(text or ""),
            category=None if group.row is None else group.row.category,
            looks=() if rollout is None or text in texts_added else rollout.judgment.looks,
        )
        if text is not None:
            texts_added.add(text)


def _lookup_settings(config: Mapping[str, JSON], names: Mapping[str, str]) -> Facts:
    """Return the settings that are set, under their names for people."""
    values = {name: wire.lookup(config, setting) for name, setting in names.items()}
    texts = [(name, str(value)) for name, value in values.items() if value is not None]
    return [(name, text) for name, text in texts if text]


def _run_facts(config: Mapping[str, JSON]) -> Facts:
    is_together = wire.lookup(config, "env.group_judge") not in (None, "none")
    names = {
        "group size": "env.group_size",
        "temperature": "env.rollout_temperature",
        "seed": "env.seed",
    }
    if is_together:
        names = {"judged together": "env.group_judge", **names}
    values = mapping_or_empty(config.get("env"))
    datasets = {name: value for name, value in values.items() if name.endswith("dataset")}
    return [
        *_lookup_settings(config, names),
        *(("data", f"{name}: {value}") for name, value in datasets.items() if value),
    ]


def _list_notices(
    config: Mapping[str, JSON], figures: RunFigures, *, has_messages: bool
) -> list[str]:
    notices = []
    names = {
        "judge": (STAND_IN_JUDGE, "env.judge_model_name"),
        "policy": (STAND_IN_POLICY, "openai.model_name"),
    }
    stand_ins = [
        role for role, (name, setting) in names.items() if wire.lookup(config, setting) == name
    ]
    if stand_ins:
        notices.append(terminal.offline_notice(stand_ins))
    failed = figures.statuses[Status.JUDGE_FAILED.value]
    if failed:
        notices.append(
            f"The judge failed for {failed} of {len(figures)} rollouts: their score is the mean of "
            "their group, their advantage is zero, and they are in no number on this page."
        )
    if not has_messages:
        notices.append("The file has no texts: they are written with --env.include_messages=True.")
    return notices


def _iter_items(path: Path, calls: CallsOfRows, indices: Sequence[int]) -> Iterator[Item]:
    """Yield the items in order; all groups are in memory only if the order is not the file's."""
    chosen = set(indices)
    groups = ((index, group) for index, group in enumerate(read_groups(path)) if index in chosen)
    if list(indices) != sorted(indices):
        groups_by_index = dict(groups)
        groups = ((index, groups_by_index[index]) for index in indices)
    for place, group in groups:
        yield make_group_item(
            place + 1,
            group,
            () if group.row is None else calls.select(group.row.uid, group.row.group),
        )


def make_group_item(number: int, group: SavedGroup, calls: Sequence[RecordedCall]) -> Item:
    """Return a group's summary and detail; its time sums the slowest policy and judge call."""
    judge = [call for call in calls if _is_judge_call(call)]
    policy = [call for call in calls if not _is_judge_call(call)]
    slowest = [
        max((call.answer.latency_s for call in role_calls), default=0.0)
        for role_calls in (policy, judge)
    ]
    labels = {rollout.judgment.label for rollout in group.rollouts if rollout is not None}
    failed = sum(group.failed)
    error, length = None, 0
    if failed:
        error = f"the judge failed for {failed} of {len(group.scores)} rollouts"
    if group.scores:
        lengths = (len(rollout.content) if rollout else 0 for rollout in group.rollouts)
        length = round(fmean(lengths))
    summary = {
        "id": str(number),
        "category": None if group.row is None else group.row.category,
        "status": (Status.JUDGE_FAILED if failed else Status.OK).value,
        "label": labels.pop() if len(labels) == 1 else None,
        "failed": failed > 0,
        "score": group.reward,
        "value": group.reward,
        "orders_disagree": None,
        "length": length,
        "seconds": sum(slowest),
        "judge_cost": total_cost(call.answer.usage.cost for call in judge) if judge else None,
        "start": wire.shorten(group.question, START),
        "gold_differs": None,
    }
    return summary, {
        "id": str(number),
        "error": error,
        "conversation": [titled_text(turn.role, turn.content) for turn in group.prompt],
        "texts": [
            titled_text(title, text)
            for title, text in (group.row.texts if group.row is not None else {}).items()
        ],
        "completions": list(_completion_views(group, calls)),
        "calls": call_views(call for call in calls if not call.component.startswith(_ROLLOUT)),
        "judgment": None,
        "critique": None,
        "comparison": _describe_comparison(group),
        "verdict": (),
        "said": (),
    }


def _is_judge_call(call: RecordedCall) -> bool:
    """Return whether a call judged one of a group's rollouts, or all of them together."""
    return call.component.startswith((_ROLLOUT, _GROUP))


def _completion_views(group: SavedGroup, calls: Sequence[RecordedCall]) -> Iterator[View]:
    by_rollout: dict[str, list[RecordedCall]] = {}
    for call in calls:
        by_rollout.setdefault(call.component.partition("/")[0], []).append(call)
    first_with: dict[str, int] = {}
    rollouts = zip(group.scores, group.rollouts, group.substituted, group.failed, strict=True)
    for number, (score, rollout, has_none, failed) in enumerate(rollouts):
        if rollout is None:
            yield completion_view(
                f"rollout {number + 1}", "", notes=["its text is not in the file"], score=score
            )
            continue
        judgment = rollout.judgment
        its_calls = by_rollout.get(f"{_ROLLOUT}{number}", [])
        notes = list[str]()
        same = first_with.setdefault(rollout.content, number)
        if failed:
            notes.append(
                "the judge failed: the score is the mean of the others, and the advantage is zero"
            )
        elif has_none:
            notes.append(
                "it had ended before this turn: its last turn stands in, without advantage"
            )
        if same != number and not its_calls:
            notes.append(f"equal to rollout {same + 1}, and judged with it")
            its_calls = by_rollout.get(f"{_ROLLOUT}{same}", [])
        label = judgment.label
        if group.together is None and label == "tie" and score:  # two games with different verdicts
            label = "better than a tie" if score > 0 else "worse than a tie"
        elif (
            group.together is not None
            and judgment.own is not None
            and label == f"{judgment.own:.3g}"
        ):
            label = (
                f"scored {label}"  # by a listwise judge, before it is compared with the anchor's
            )
        yield completion_view(
            f"rollout {number + 1}",
            rollout.content,
            notes=notes,
            score=score,
            status=judgment.status or None,
            label=label,
            explanation=judgment.explanation,
            seen=describe_looks(judgment.looks),
            calls=call_views(its_calls),
        )


def _describe_comparison(group: SavedGroup) -> str:
    """Describe how the rollouts were compared; empty if each was judged by itself."""
    together = group.together
    if together is None or group.row is None:
        return ""
    anchor = next(
        (f"the {title} (the anchor)" for title in _ANCHORS if title in group.row.texts),
        "the anchor",
    )
    judge = _JUDGES.get(together.judge, together.judge)
    calls = "call" if together.calls == 1 else "calls"
    parts = [f"Compared with each other {judge}, in {together.calls} {calls}"]
    if together.is_again:
        parts.append("judged a second time, since a verdict was missing")
    if together.anchored:
        parts.append(f"{anchor} is one more of them, as good as the middle of the rewards' range")
    parts.append(describe_orders(together.orders))
    if together.judge == _TOURNAMENT:
        games = "game_1_2 shows rollout 1 first"
        if together.anchored:
            games += f", game_1_0 before {anchor}"
        parts.append(games)
    return "; ".join(filter(None, parts)) + "."
