"""Anchors: fixed rows that each run judges, to detect a change of the judge behind a name.

Beside a file of anchors is its state, FILE.state.jsonl, with a line for each run: the judge's name,
its settings, the time, the models that served it, and the scores. Later runs are compared with the
first line of the same judge, settings and anchors; it has three judgments of each anchor, which
show the judge's own noise. A later run judges each anchor once, and twice more if the result looks
suspicious; only all three together can show a change.

Guarantees: each run judges the anchors by new calls, whatever the judgment cache holds; a resumed
run pays for none of them twice, and has one line; failed judgments have no score, and are left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import TypeAlias

import orjson
from pydantic import TypeAdapter, ValidationError

from judgegym.data.rows import Row, index_by_uid, load_rows, read_text_cell
from judgegym.engine.metrics import GoldLabel
from judgegym.engine.records import digest, explain_errors
from judgegym.engine.runs.damaged_lines import read_lines
from judgegym.engine.runs.directory import RunDirectory
from judgegym.engine.runs.ledger import CallLedger
from judgegym.engine.runs.lines import RawLine
from judgegym.engine.settings.env import dump_public
from judgegym.judges.config.fields import declared_settings
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.tasks import (
    JudgeTask,
    ResponseJudgment,
    TaskError,
    TaskJudge,
    judge_responses,
    score_or_fail,
)
from judgegym.judges.parsing.labels import yes_no_label
from judgegym.judges.scorers.fields import make_judge_task
from judgegym.judges.scorers.registry import TASK_FIELDS, find_definition, find_scale
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.at_once import bind_context, gather_results
from judgegym.llm.cache import BYPASS_CACHE
from judgegym.llm.errors import SettingsError, UserError
from judgegym.llm.ledger import record_calls
from judgegym.llm.wire import JSON
from judgegym.statistics.agreement import agreement_rule
from judgegym.statistics.drift import DriftTest, drift_test

logger = logging.getLogger(__name__)

STATE, RUN_ANCHORS = ".state.jsonl", "anchors.jsonl"
"""The suffix of the state file beside the anchors; the state file in a run directory."""
LOOKS = 3
"""Judgments of each anchor in the first run, and in a later run that looks suspicious."""
SUSPICIOUS, LEVEL = 0.2, 0.005
"""The p-values below which a run judges the anchors again, and reports a changed judge."""
_UID = "anchor/"
Scores: TypeAlias = dict[str, tuple[float | None, ...]]
"""The scores of each anchor by its id; `None` where the judge failed."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A row of the file: its id, its task, and its gold label, if it has one."""

    uid: str
    task: JudgeTask
    label: str | float | None = None


@dataclass(frozen=True, slots=True)
class AnchorJudge:
    """The judge of the anchors.

    Attributes:
        path: the file of anchors.
        kind: the kind of judge, as in `judgegym score --judge`.
        name: its name in results.
        settings: its settings.
        judge: judges a task.
        served: returns the names and fingerprints that its endpoint has reported so far.
    """

    path: Path
    kind: str
    name: str
    settings: JudgeSettings
    judge: TaskJudge
    served: Callable[[], Sequence[str]]

    @property
    def digest(self) -> str:
        """A digest of the settings that determine its judgments, without the seed."""
        dumped, settings_class = dump_public(self.settings), find_definition(self.kind).settings
        names = {
            declared.name
            for declared in declared_settings(settings_class)
            if not declared.is_operational
        } - {"seed"}
        return digest(self.kind, {name: dumped.get(name) for name in (*sorted(names), "rubric")})


@dataclass(frozen=True, slots=True)
class AnchorRecord:
    """A line of the state: one run's judgments of the anchors."""

    judge: str
    settings: str
    anchors: str
    at: datetime
    run: str
    served: tuple[str, ...]
    scores: Scores
    agreeing: int | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Judge, settings and anchors, which two comparable runs have in common."""
        return self.judge, self.settings, self.anchors


@dataclass(frozen=True, slots=True)
class AnchorResult:
    """The result of a run's anchors.

    Attributes:
        rows: the number of anchors.
        labelled: the number of anchors with a label.
        first: the first run; `None` if this is the first.
        now: this run.
        test: the test against the first run; `None` if this is the first, or no anchor has a score
            in both.
    """

    rows: int
    labelled: int
    first: AnchorRecord | None
    now: AnchorRecord
    test: DriftTest | None

    @property
    def judgments(self) -> int:
        """The number of judgments of anchors in this run."""
        return sum(map(len, self.now.scores.values()))

    @property
    def has_changed(self) -> bool:
        """Whether the judge differs from that of the first run."""
        return (
            self.test is not None and self.judgments == LOOKS * self.rows and self.test.p <= LEVEL
        )

    @property
    def summary(self) -> str:
        """The result in sentences."""
        judge, first, test, agreeing = self.now.judge, self.first, self.test, self.now.agreeing
        labels = ""
        if agreeing is not None:
            labels = f" The judge agrees with {agreeing:,} of {self.labelled:,} labels"
        if first is None:
            if labels:
                labels = f"{labels}."
            return (
                f"Anchors: this is the first run of {judge} with these settings. It judges "
                f"{self.rows:,} anchors {LOOKS} times, and later runs are compared with it.{labels}"
            )
        since = f"{first.at:%d %B %Y}".lstrip("0")
        if labels:
            labels = f"{labels}, with {first.agreeing:,} then."
        if test is None:
            return (
                f"Anchors: none of {self.rows:,} has a score both now and in the first run "
                f"({since})."
            )
        flips = (
            f"{test.flipped:,} of {test.rows:,} anchors flipped (expected {test.expected:.2g}, p = "
            f"{test.p:.2g})"
        )
        if not self.has_changed:
            return f"Anchors: no sign that {judge} has changed since {since}: {flips}.{labels}"
        then, now = (", ".join(record.served) or "unknown" for record in (first, self.now))
        return (
            f"The judge behind {judge} has changed since {since}: {flips}. Served as: {then} then, "
            f"{now} now.{labels}"
        )

    def to_json(self) -> dict[str, JSON]:
        """Return the result as in `metrics.json`."""
        first, test = self.first, None if self.test is None else asdict(self.test)
        since, served = (
            (None, None) if first is None else (first.at.isoformat(), list(first.served))
        )
        numbers = {
            "rows": self.rows,
            "judgments": self.judgments,
            "agreeing": self.now.agreeing,
            "test": test,
        }
        return {
            **numbers,
            "first_run": since,
            "served_first": served,
            "has_changed": self.has_changed,
        }


def read_anchors(judge: AnchorJudge) -> list[Anchor]:
    """Read the anchors of a judge.

    Raises:
        DataError: the file cannot be read, or this judge cannot judge a row.
        SettingsError: the judge asks no endpoint, so that it cannot change.
    """
    if not judge.settings.asks_endpoint:
        raise SettingsError(
            "--anchors: the judge calls no endpoint, so that there is no model that may change"
        )
    settings = judge.settings
    shown = find_definition(judge.kind).fields
    if isinstance(settings, AnyJudgeSettings):
        shown = settings.shown_fields
    rows = index_by_uid(load_rows(str(judge.path.expanduser()), split="train"), numbered=True)
    return [_anchor(uid, row, judge, shown) for uid, row in rows.items()]


def _anchor(uid: str, row: Row, judge: AnchorJudge, shown: frozenset[str]) -> Anchor:
    prompt, response, response_list = (
        row.values.get(name) for name in ("prompt", "response", "responses")
    )
    responses = [response] if isinstance(response, str) else response_list
    if not isinstance(prompt, str) or not isinstance(responses, list) or not responses:
        raise row.missing_error("an anchor: texts in prompt and response (or a list in responses)")
    texts = [text for text in responses if isinstance(text, str)]
    texts = [text for text in texts if text.strip()]
    label = read_text_cell(row.values.get("label"))
    if (
        len(texts) < len(responses)
        or isinstance(label, bool)
        or not isinstance(label, str | int | float | None)
    ):
        raise row.error(
            "expected responses that are texts, not empty, and a label that is a number or a text"
        )
    scale = find_scale(judge.kind, judge.settings)
    if scale is not None and isinstance(label, int | float) and not scale.includes(label):
        raise row.error(
            f"expected a label on the judge's scale, {scale.low} to {scale.high}, found {label:g}"
        )
    if find_definition(judge.kind).judges_aspects:
        label = yes_no_label(label) or label
    shown_fields = [name for name in TASK_FIELDS if name in shown]
    fields = {name: row.values[name] for name in shown_fields if name in row.values}
    try:
        task = make_judge_task(prompt, texts, fields)
        judge.judge.check(task)
    except (TaskError, ValueError) as error:
        raise row.error(str(error)) from None
    if isinstance(label, str):
        label = label.strip() or None
    elif isinstance(label, int):
        label = float(label)
    return Anchor(uid, task, label)


_RECORD = TypeAdapter(AnchorRecord)


def _locate_state(path: Path) -> Path:
    return path.expanduser().with_name(path.name + STATE)


def read_state(path: Path) -> list[AnchorRecord]:
    """Read the lines of a state file, beside the anchors or in a run directory.

    Raises:
        UserError: the file cannot be read, or an object in it is not a record.
    """
    return [record for _, record in read_lines(path, _read_record, may_grow=True)]


def _read_record(line: RawLine) -> AnchorRecord:
    try:
        return _RECORD.validate_json(line.data)
    except ValidationError as error:
        line.fields()  # a line that holds no object is damaged
        problem = explain_errors(error)
        raise line.error(f"{problem}; remove the line") from None


class _NonAnchorRows:
    """A container of all uids except those of anchors."""

    def __contains__(self, uid: object) -> bool:
        return not str(uid).startswith(_UID)


def check_anchors(judge: AnchorJudge) -> None:
    """Check, before the first call, that a run's anchors and their state can be read.

    Raises:
        UserError: a file cannot be read, or an anchor cannot be judged.
    """
    read_anchors(judge)
    read_state(_locate_state(judge.path))


async def judge_anchors(
    judge: AnchorJudge | None, run: RunDirectory, *, keep_texts: bool
) -> AnchorResult | None:
    """Judge a run's anchors, compare them with the first run, and add a line to the state.

    Args:
        judge: the run's judge; `None` for a run without anchors.
        run: the run directory with the ledger of the calls.
        keep_texts: whether to record prompts, too.

    Raises:
        UserError: a file cannot be read or written.
        RunStop: no further request may be sent.
    """
    if judge is None:
        return None
    anchors, state = read_anchors(judge), _locate_state(judge.path)
    key, records, current = _find_records(judge, anchors, run.path)
    first = None
    if records and records[0] != current:
        first = records[0]
    if current is None:
        with closing(CallLedger(run, finished=_NonAnchorRows(), keep_texts=keep_texts)) as ledger:
            ask = partial(_judge_looks, judge.judge, anchors, ledger, LOOKS * len(records))
            looks = await ask(range(1 if first is not None else LOOKS))
            if (
                first is not None
                and (test := _compare(first, _scores(looks)))
                and test.p <= SUSPICIOUS
            ):
                logger.info(
                    "the anchors' scores differ from the first run (p = %.2g): judged again",
                    test.p,
                )
                more = await ask(range(1, LOOKS))
                looks = {uid: judgments + more[uid] for uid, judgments in looks.items()}
        at, where = datetime.now(timezone.utc).replace(microsecond=0), str(run.path.resolve())
        current = AnchorRecord(
            *key,
            at,
            where,
            tuple(judge.served()),
            _scores(looks),
            _count_agreeing(judge, anchors, looks),
        )
        line = orjson.dumps(current) + b"\n"
        await asyncio.to_thread(_append, state, line)
        await run.disk.write(run.path / RUN_ANCHORS, line)
    labelled = sum(anchor.label is not None for anchor in anchors)
    test = None
    if first is not None:
        test = _compare(first, current.scores)
    result = AnchorResult(len(anchors), labelled, first, current, test)
    (logger.warning if result.has_changed else logger.info)("%s", result.summary)
    return result


def _find_records(
    judge: AnchorJudge, anchors: Sequence[Anchor], run: Path | None
) -> tuple[tuple[str, str, str], list[AnchorRecord], AnchorRecord | None]:
    """Return the anchors' key, the records of earlier runs, and this run's own if it is resumed."""
    anchors_digest = digest(
        [(anchor.uid, anchor.task.key(judge.kind), anchor.label) for anchor in anchors]
    )
    key = (judge.name, judge.digest, anchors_digest)
    run_records = read_state(run / RUN_ANCHORS) if run is not None else []
    records = [record for record in read_state(_locate_state(judge.path)) if record.key == key]
    return key, records, next((entry for entry in run_records if entry.key == key), None)


def plan_anchors(judge: AnchorJudge, run: Path | None) -> tuple[list[Anchor], int, int]:
    """Return the anchors, and the fewest and the most judgments of each that a run asks for.

    Raises:
        UserError: a file cannot be read.
    """
    anchors = read_anchors(judge)
    _, records, current = _find_records(judge, anchors, run)
    if current is not None:
        return (anchors, 0, 0)
    return (anchors, 1 if records else LOOKS, LOOKS)


def _append(path: Path, line: bytes) -> None:
    try:
        with path.open("ab+") as file:
            file.seek(max(0, path.stat().st_size - 1))
            file.write(
                line if file.read() in (b"", b"\n") else b"\n" + line
            )  # the last line may be torn
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error


Looks: TypeAlias = "dict[str, tuple[ResponseJudgment, ...]]"
"""The judgments of each anchor's first response, by the anchor's id."""


async def _judge_looks(
    judge: TaskJudge, anchors: Sequence[Anchor], ledger: CallLedger, before: int, looks: range
) -> Looks:
    """Judge anchors with new calls, distinct from those of `before` looks of other runs."""

    async def look(anchor: Anchor, number: int) -> ResponseJudgment:
        task, uid = (
            replace(anchor.task, repeat=1 + before + number),
            f"{_UID}{anchor.uid}/{number + 1}",
        )
        # Of a run that has ended without its line, or at the same time, the numbers of the looks
        # are the same.
        with record_calls(ledger.row(uid)), bind_context(BYPASS_CACHE, True):
            return (await score_or_fail(partial(judge_responses, judge), task, uid))[0]

    calls = [look(anchor, number) for anchor, number in product(anchors, looks)]
    judgments = iter(await gather_results(calls))
    return {anchor.uid: tuple(islice(judgments, len(looks))) for anchor in anchors}


def _scores(looks: Looks) -> Scores:
    return {
        uid: tuple(judgment.score for judgment in judgments) for uid, judgments in looks.items()
    }


def _count_agreeing(judge: AnchorJudge, anchors: Sequence[Anchor], looks: Looks) -> int | None:
    """Return how many labels the first look agrees with; `None` without labels."""
    labels = {anchor.uid: anchor.label for anchor in anchors if anchor.label is not None}
    scores = [label for label in labels.values() if isinstance(label, float)]
    agrees = agreement_rule(scores, has_levels=find_scale(judge.kind, judge.settings) is not None)
    compare = partial(
        GoldLabel.compare, agrees=agrees, of_aspects=find_definition(judge.kind).judges_aspects
    )
    if labels:
        return sum(compare(label, looks[uid][0]).agrees is True for uid, label in labels.items())
    return None


def _compare(first: AnchorRecord, now: Scores) -> DriftTest | None:
    """Test the anchors that have a score in each look; return `None` if there are none."""
    scores_before: list[list[float]] = []
    scores_after: list[list[float]] = []
    for uid, scores in now.items():
        before, after = _complete_scores(first.scores[uid]), _complete_scores(scores)
        if before and after:
            scores_before.append(before)
            scores_after.append(after)
    if scores_before:
        return drift_test(scores_before, scores_after)
    return None


def _complete_scores(scores: Sequence[float | None]) -> list[float]:
    """Return the scores of an anchor; none if one is missing."""
    present = [score for score in scores if score is not None]
    if len(present) == len(scores):
        return present
    return []
