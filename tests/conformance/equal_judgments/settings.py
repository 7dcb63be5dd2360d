"""All settings: commands and public judges, each with its rows, by kind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.conformance.equal_judgments.alone import ALONE, Flags
from tests.conformance.equal_judgments.environments import EVALUATED, URL
from tests.conformance.equal_judgments.made import MADE
from tests.conformance.equal_judgments.public import PUBLIC

_RUN: Flags = {"max_judge_error_rate": 1, "write_report": False}
ASKING: Flags = {
    "judge_base_url": URL,
    "judge_model_name": "m",
    "retry_delay": 0,
    "judge_max_retries": 2,
    "judge_max_concurrency": 1,  # so that equal requests come in one order, and are answered in it
}
_POLICY: Flags = {"base_url": URL, "model_name": "p", "num_requests_for_eval": 1}
_MODELLESS = "rule"
"""The kind that asks nobody, and refuses the flags of an endpoint."""
_FEWER = 4
"""A row of an environment costs so many times as much as a row of `score`."""


@dataclass(frozen=True)
class Setting:
    """One command, or public judge, over many rows.

    Attributes:
        name: unique; it begins with the kind. Its words steer the endpoint (`replies.py`): `calm`
            has no HTTP errors, `formless` refuses response formats, `batched` has calls that share
            requests as time has it.
        kind: of judge, `env` for environments, or `python`.
        data: files of rows, by name, with the shape of their rows.
        words: of the command.
        judge: the public judge in place of a command, with its keywords and what it is shown.
        share: of the usual number of rows.
    """

    name: str
    kind: str
    data: Mapping[str, str]
    words: Sequence[str] = ()
    judge: Mapping[str, str] = field(default_factory=dict)
    share: float = 1.0


def words_of(flags: Flags, prefix: str = "") -> list[str]:
    """Flags as words of a command line."""
    return [
        f"--{prefix}{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in flags.items()
    ]


def _scored() -> Iterator[Setting]:
    for kind, of_kind in {**ALONE, **MADE}.items():
        for name, (shape, flags) in of_kind.items():
            asking = {} if kind == _MODELLESS else ASKING
            samples = "responses_per_prompt" in flags
            words = words_of({"judge": kind, **asking, **_RUN, "on_bad_row": "skip", **flags})
            policy = words_of(_POLICY, "openai.") if samples else []
            share = 0.25 if name.startswith("forked") or samples else 1.0
            command = ["score", "rows.jsonl", "--out=scored.jsonl", *words, *policy]
            yield Setting(f"{kind}-{name}", kind, {"rows": shape}, command, share=share)


def _evaluated() -> Iterator[Setting]:
    for environment, of_environment in EVALUATED.items():
        for name, (data, flags) in of_environment.items():
            files = {flag: f"{flag}.jsonl" for flag in data}
            run = {"data_dir_to_save_evals": "run", "max_retries": 2}
            talks = (
                {"user_base_url": URL, "user_model_name": "u"} if "user_max_turns" in flags else {}
            )
            own = words_of({**files, **ASKING, **_RUN, **run, **talks, **flags}, "env.")
            words = ["evaluate", environment, *own, *words_of(_POLICY, "openai.")]
            yield Setting(f"env-{environment}-{name}", "env", data, words, share=1 / _FEWER)


def _public() -> Iterator[Setting]:
    for name, (judge, shape, keywords, shown) in PUBLIC.items():
        asking = (
            {}
            if judge == "RuleJudge"
            else {key: value for key, value in ASKING.items() if key != "retry_delay"}
        )
        made = {
            "judge": judge,
            "settings": json.dumps({**asking, **keywords}),
            "shown": json.dumps(shown),
        }
        yield Setting(
            f"python-{name}_calm", "python", {"rows": shape}, judge=made, share=1 / _FEWER
        )


SETTINGS: Sequence[Setting] = (*_scored(), *_evaluated(), *_public())
