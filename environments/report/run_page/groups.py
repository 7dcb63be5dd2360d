"""A group of `process` as an item of its page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from pydantic import BaseModel, ConfigDict, ValidationError

from environments.records import explained
from environments.report.run_page.calls import call_views
from environments.report.run_page.figures import RowFigures
from environments.report.run_page.items import CompletionView, ItemDetail, ItemSummary, NamedText
from environments.runs.lines import whole_lines
from environments.runs.recorded_calls import RecordedCall
from judges.core.judgment import Status
from judges.llm import wire

_START = 140
_ROLLOUT = "rollout_"


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class SavedJudgment(_Line):
    """A rollout's judgment."""

    status: str = ""
    label: str | None = None
    explanation: str = ""


class SavedTurn(_Line):
    """A message of a rollout; the last one is the completion, with its judgment."""

    role: str
    content: str
    judgment: SavedJudgment = SavedJudgment()


class SavedOverride(_Line):
    """What a trainer must know of a rollout."""

    set_advantage_to_zero: bool = False


class SavedRow(_Line):
    """The row of a group."""

    uid: str
    group: int
    category: str | None
    question: str
    texts: dict[str, str]


class SavedGroup(_Line):
    """A line of a file of groups, but for its tokens."""

    scores: list[float]
    messages: list[list[SavedTurn]] | None = None
    overrides: list[SavedOverride] | None = None
    row: SavedRow | None = None

    @property
    def substituted(self) -> list[bool]:
        """For each rollout, whether its score stands in for that of a judge that failed."""
        marked = [override.set_advantage_to_zero for override in self.overrides or ()]
        return marked or [False] * len(self.scores)

    @property
    def prompt(self) -> list[SavedTurn]:
        """The messages that the policy was asked; none where the file has no messages."""
        return self.messages[0][:-1] if self.messages else []

    @property
    def question(self) -> str:
        """What the policy was asked, as a person reads it."""
        if self.row is not None:
            return self.row.question
        return self.prompt[-1].content if self.prompt else ""

    @property
    def rollouts(self) -> list[SavedTurn | None]:
        """The completion of each rollout; `None` where the file has no messages."""
        found: list[SavedTurn | None] = [turns[-1] for turns in self.messages or () if turns]
        return found + [None] * (len(self.scores) - len(found))

    @property
    def reward(self) -> float:
        """The mean of its scores."""
        return fmean(self.scores) if self.scores else 0.0


def read_groups(path: Path) -> Iterator[SavedGroup]:
    """Read a file of groups, one by one.

    Raises:
        RunDirectoryError: the file cannot be read, or a line is no group.
    """
    for line in whole_lines(path):
        try:
            yield SavedGroup.model_validate_json(line.data)
        except ValidationError as error:
            raise line.error(f"not a group of rollouts: {explained(error)}") from error


def figures_of(group: SavedGroup) -> Iterator[RowFigures]:
    """The numbers of each rollout; a score that stands in for another is none."""
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
        )


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
        calls=call_views(call for call in calls if not is_judges(call)),
    )


def is_judges(call: RecordedCall) -> bool:
    """Whether a call of a group was made to judge one of its rollouts."""
    return call.component.startswith(_ROLLOUT)


def _by_rollout(calls: Iterable[RecordedCall]) -> Mapping[str, list[RecordedCall]]:
    found: dict[str, list[RecordedCall]] = {}
    for call in calls:
        if is_judges(call):
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
            label=_label(judgment.label, score),
            explanation=judgment.explanation,
            calls=call_views(its_calls),
        )


def _label(label: str | None, score: float) -> str | None:
    """The label; a tie of two games of which one was tied, or of a strong and a weak verdict, is none."""
    if label == "tie" and score:
        return f"{'better' if score > 0 else 'worse'} than a tie"
    return label


def _longest(calls: Sequence[RecordedCall]) -> float:
    return max((call.answer.latency_s for call in calls), default=0.0)


def _cost(calls: Sequence[RecordedCall]) -> float | None:
    if not calls:
        return None
    costs = [call.answer.usage.cost for call in calls]
    return None if None in costs else sum(cost for cost in costs if cost is not None)
