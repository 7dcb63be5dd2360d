"""The page of a file of groups, from the file and from the run directory beside it, if there is one."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from judgegym.engine import terminal
from judgegym.engine.runs.directory import CONFIG, run_directory_of
from judgegym.engine.runs.recorded_calls import read_calls
from judgegym.engine.settings.values import STAND_IN_JUDGE, STAND_IN_POLICY
from judgegym.judges.config.yaml_text import load_yaml
from judgegym.judges.core.group import OrderAgreement
from judgegym.llm import wire
from judgegym.llm.errors import RunDirectoryError
from judgegym.llm.wire import JSON
from judgegym.reports.results.calls import CallsOfRows
from judgegym.reports.results.saved_group import read_groups
from judgegym.reports.run_page.charts import Words, charts
from judgegym.reports.run_page.choice import ItemSelection, Rank, choose
from judgegym.reports.run_page.contents import Contents, ReportOptions
from judgegym.reports.run_page.figures import RunFigures
from judgegym.reports.run_page.groups import figures_of, group_detail, group_summary, is_judges
from judgegym.reports.run_page.head import usable_seed
from judgegym.reports.run_page.items import Fact, ItemDetail, ItemSummary, PageHead
from judgegym.reports.run_page.places import by_place
from judgegym.statistics.bootstrap import ratio_interval

_WORDS = Words("mean reward", item="rollout", score="reward", length="completion", intervals=False)


def group_contents(path: Path, options: ReportOptions) -> Contents:
    """Read a file of groups.

    Raises:
        RunDirectoryError: a line of it, or its run directory, is damaged.
    """
    run_path = run_directory_of(path)
    config = _config(run_path / CONFIG)
    figures, ranks, has_messages, orders = RunFigures(), list[Rank](), True, OrderAgreement()
    uids: list[str | None] = []
    totals, weights = array("d"), array("d")
    for group in read_groups(path):
        rollouts = list(figures_of(group))
        for rollout in rollouts:
            figures.add(rollout)
        scores = [rollout.score for rollout in rollouts if rollout.score is not None]
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
    said = f"mean reward {sum(totals) / sum(weights):.4f}"
    if len(totals) < 2:
        return said
    bounds = ratio_interval(totals, weights, seed=seed)
    return f"{said} (95 %: {bounds.low:.4f} to {bounds.high:.4f})"


def _facts(config: Mapping[str, JSON], groups: int, figures: RunFigures, orders: OrderAgreement) -> list[Fact]:
    def said(name: str, setting: str, *, is_first: bool = False) -> Fact:
        value = wire.lookup(config, setting)
        return Fact(name, "" if value is None else str(value), is_first)

    is_together = wire.lookup(config, "env.group_judge") not in (None, "none")
    env = wire.lookup(config, "env")
    data = env if isinstance(env, Mapping) else {}
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


def _config(path: Path) -> Mapping[str, JSON]:
    if not path.exists():
        return {}
    try:
        found = cast("JSON", load_yaml(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{path} cannot be read: {error}") from error
    return found if isinstance(found, Mapping) else {}
