"""The arguments of scorers and tasks, as Python passes them and as inspect's command line does.

inspect reads the value of `-S name=value` and `-T name=value` as YAML, and then splits a plain text at its commas.
Guarantees: a text with commas arrives whole; an unknown argument is an error that names the one that was probably
meant; nothing that inspect would write into its log is secret.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from inspect_ai._util.error import PrerequisiteError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from rich.markup import escape

from judgegym.integrations.scores.scoring import RewardScorer
from judgegym.integrations.scores.settings import secret_in
from judgegym.integrations.scores.sources import (
    DEADLINE_S,
    TIMEOUT_S,
    JudgeSource,
    SharedScorings,
    is_of_groups,
    refuse_unknown,
)
from judgegym.judges.config.explaining import text_or_file
from judgegym.judges.config.sources import settings_from_keywords
from judgegym.judges.scorers.items import rubric_of
from judgegym.judges.scorers.registry import JudgeKind
from judgegym.llm.errors import SettingsError, UserError
from judgegym.server.settings.server import JudgeMount

_NOT_HERE = frozenset({"judge", "rubric"})
"""Settings of a server's judge that a scorer has not: it is of one kind, and `rubric` is one of its options."""
_LISTS = frozenset({"aspects"})
"""Arguments that are lists; a list in the place of any other is a text that was split."""
_SCORINGS = SharedScorings()


def whole(value: object) -> object:
    """A text that inspect's command line has split at its commas."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ",".join(map(str, value))
    return value


def _rubric(value: object) -> object:
    if isinstance(value, Mapping) and "criteria" not in value:
        raise ValueError("expected text, or an object with criteria; a text with a colon needs quotes of its own")
    if isinstance(value, Mapping):
        rubric_of(value)
        return value
    return whole(value)


def _file(value: object) -> object:
    return text_or_file(f"@{whole(value)}")


class ScorerOptions(BaseModel):
    """What a scorer takes beside the settings of its judge.

    Attributes:
        url: the URL of a reward server, whose judge is asked; without it, the judge runs in inspect's process.
        mount: the name of a judge at the server; empty for the judge at the root.
        token_env: the environment variable with the server's bearer token.
        offline: without `url`, ask the stand-in, without key or network; its scores mean nothing.
        rubric: the criteria, as text or as an object of criteria, score1_description, …; a sample's own `rubric` in its
            metadata comes first.
        rubric_file: instead, a file with the text.
        aspects: yes/no questions, as for the judge's setting; a sample's own come first.
        reference: where the reference is: `target`, or a field of the sample's metadata; empty for none.
        baseline: the field of the metadata with the response to compare with; without one, the reference is it.
        include_history: the prompt is all that was said before the completion, with calls of tools, instead of the
            sample's input.
        invalid_completion_score: the score of an empty completion; null leaves the sample unscored.
        timeout_s: seconds for one attempt at the server.
        deadline_s: seconds within which a sample has its score, or is unscored.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    url: Annotated[str | None, BeforeValidator(whole)] = None
    mount: str = ""
    token_env: str = "JUDGEGYM_TOKEN"
    offline: bool = False
    rubric: Annotated[str | dict[str, object] | None, BeforeValidator(_rubric)] = None
    rubric_file: Annotated[str | None, BeforeValidator(_file)] = None
    aspects: object = None
    reference: str = "target"
    baseline: str = "baseline"
    include_history: bool = False
    invalid_completion_score: float | None = Field(0.0, ge=0, le=1)
    timeout_s: float = Field(TIMEOUT_S, gt=0)
    deadline_s: float = Field(DEADLINE_S, gt=0)


@dataclass(frozen=True, slots=True)
class JudgeArguments:
    """What a scorer asks, and how.

    Attributes:
        options: its own arguments.
        scoring: what scores, shared with the other scorers of equal arguments.
        model: the judge's model, if the judge runs in this process.
    """

    options: ScorerOptions
    scoring: RewardScorer
    model: str | None


def refuse_secrets(arguments: Mapping[str, object]) -> None:
    """Refuse what inspect would write into its log.

    Raises:
        SettingsError: an argument is secret.
    """
    found = secret_in(arguments)
    if found is not None:
        raise SettingsError(f"{found}, since inspect writes arguments into its log")


def judging_of(kind: JudgeKind, arguments: Mapping[str, object]) -> JudgeArguments:
    """What a scorer of a kind asks.

    Raises:
        SettingsError: an argument is unknown, wrong, or secret.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    settings = [name for name in JudgeMount.model_fields if name not in _NOT_HERE]
    refuse_secrets(given)
    refuse_unknown(given, [*ScorerOptions.model_fields, *settings], within=kind)
    of_options = {name: value for name, value in given.items() if name in ScorerOptions.model_fields}
    if arguments.get("invalid_completion_score", 0.0) is None:
        of_options["invalid_completion_score"] = None
    options = settings_from_keywords(ScorerOptions, of_options)
    if options.rubric is not None and options.rubric_file is not None:
        raise SettingsError("rubric_file: expected either rubric or rubric_file")
    of_judge = {name: value for name, value in given.items() if name not in of_options}
    if options.url is not None:
        if of_judge:
            raise SettingsError(f"{next(iter(of_judge))}: only without url; the judge's settings are the server's")
        return JudgeArguments(options, _scoring(options, None), None)
    if options.aspects is not None:
        of_judge["aspects"] = options.aspects
    if is_of_groups({"judge": kind}) and "group_size" not in of_judge:
        raise SettingsError(f"group_size: {kind} compares the epochs of a sample, and needs their number")
    plain = {name: value if name in _LISTS else whole(value) for name, value in of_judge.items()}
    mount = settings_from_keywords(JudgeMount, {"judge": kind, **plain})  # the names as they were given, in its errors
    if not options.offline:
        mount.chat_settings(section="")  # a missing key is an error now, and not at the first sample
    return JudgeArguments(options, _scoring(options, {"judge": kind, **plain}), mount.judge_model_name)


def _scoring(options: ScorerOptions, judge: Mapping[str, object] | None) -> RewardScorer:
    source = JudgeSource(
        options.url,
        judge,
        offline=options.offline,
        token=os.environ.get(options.token_env) if options.url is not None else None,
        mount=options.mount,
        timeout_s=options.timeout_s,
        deadline_s=options.deadline_s,
    )
    return _SCORINGS.of(source)


@contextmanager
def shown_as_one_line() -> Iterator[None]:
    """Raise an error of the user's as the one that inspect shows without a traceback."""
    try:
        yield
    except UserError as error:
        raise PrerequisiteError(escape(str(error))) from None
