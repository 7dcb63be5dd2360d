"""Settings and rows of peer evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import model_validator
from typing_extensions import Self

from judgegym.data.answers import warn_unused_columns
from judgegym.data.rows import Row, index_by_uid
from judgegym.data.task_list import TaskList
from judgegym.engine.settings import EnvConfig
from judgegym.engine.settings.env import AskedEndpoints
from judgegym.engine.settings.verbs import EVALUATE, ROLLOUTS, Verb
from judgegym.eval_environments.models import Models, join_names, list_urls
from judgegym.judges.config.explaining import TextOrFile
from judgegym.judges.config.fields import operational, setting
from judgegym.judges.peers import DEFAULT_RUBRIC, PeerJudgeSettings

_QUERY = ("query", "question", "prompt")


class SelfCritiqueConfig(EnvConfig, PeerJudgeSettings):
    """Settings of peer evaluation."""

    candidates: Models = setting([], common=True)
    """Evaluate these models, a YAML or JSON list: [{"name": "a", "model_name": "…", "base_url":
    "…", "api_key_env": "…"}, {"name": "b", "answers": "b.jsonl"}]."""
    judges: Models = setting([], common=True)
    """Let these models judge, a list like candidates. If unset: the candidates with an endpoint; in
    training without such the model of the judge_* settings."""
    critique_rounds: int = setting(1, common=True, ge=0)
    """Let each judge critique and revise its score in this many rounds; another name of
    judge_critique_rounds."""
    include_self: bool = setting(False)
    """Let each model judge its own answers, too."""
    rubric: TextOrFile = setting(DEFAULT_RUBRIC)
    """Use this rubric for rows without one; @file reads it from a file. Default: the
    specification's rubric of six criteria and 100 points."""
    dataset: str | None = setting(None, group="data", common=True)
    """Read queries from this dataset (hub name or file) with the column query and, optionally,
    rubric."""
    split: str = setting("train", group="data")
    """Read this split of a hub dataset."""
    train_dataset: str | None = setting(None, verbs=ROLLOUTS, group="data", fallback="dataset")
    """Train on the queries of this dataset; if unset, on those of dataset."""
    rows_at_once: int = operational(32, verbs=EVALUATE, ge=1)
    """Work on at most this many queries at once; each endpoint has its own limit of requests."""

    @model_validator(mode="after")
    def _check_rounds(self) -> Self:
        set_fields = self.model_fields_set & {"critique_rounds", "judge_critique_rounds"}
        if set_fields == {"judge_critique_rounds"}:
            self.critique_rounds = self.judge_critique_rounds
        elif len(set_fields) == 2 and self.critique_rounds != self.judge_critique_rounds:
            raise ValueError(
                f"critique_rounds ({self.critique_rounds}) and judge_critique_rounds "
                f"({self.judge_critique_rounds}) are the same setting, but differ"
            )
        self.judge_critique_rounds = self.critique_rounds
        return self

    def endpoints_asked(self, verb: Verb, policy: tuple[str, ...]) -> AskedEndpoints:
        """Return the base URLs of candidates and judges; in training, of policy and judges."""
        judges = list_urls(self.judges)
        candidates = list_urls(self.candidates)
        if verb == "evaluate":
            answering = candidates if self.candidates else policy
            return AskedEndpoints(judge=judges or answering, policy=answering)
        return AskedEndpoints(judge=judges or candidates or (self.judge_base_url,), policy=policy)

    def run_name(self, policy: str) -> str:
        """Return the first two candidates' names and the number of others, or the policy."""
        return join_names(self.candidates) or policy

    def judge_run_name(self) -> str | None:
        """Name the judges: the first two and the number of others; `None` if candidates judge."""
        return join_names(self.judges) or None


@dataclass(frozen=True, slots=True)
class PeerTask:
    """A query and the rubric by which its answers are scored."""

    uid: str
    question: str
    rubric: str
    category: str | None


def read_queries(rows: Sequence[Row], default_rubric: str) -> TaskList[PeerTask]:
    """Make a task of each row: its query with its own rubric or the default one.

    Raises:
        DataError: a row has no query, a rubric that is not text, or the id of another row.
    """
    warn_unused_columns(rows, (_QUERY,), ("rubric",))
    return TaskList.from_rows(
        index_by_uid(rows, numbered=True), lambda uid, row: _make_task(uid, row, default_rubric)
    )


def _make_task(uid: str, row: Row, default_rubric: str) -> PeerTask:
    if not isinstance(row.values.get("rubric"), str | None):
        raise row.missing_error(
            "a rubric that is text (or none: env.rubric is for rows without one)"
        )
    query = row.filled_text(*_QUERY)
    if query is None:
        raise row.missing_error("text in query, question or prompt")
    return PeerTask(
        uid, query, row.filled_text("rubric") or default_rubric, row.optional_text("category")
    )
