"""An evaluation in this process against scripted endpoints, of any environment: a judge, a policy, both or neither."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judgegym.environments.base import JudgedEnv
from tests.command import Ended, RunFiles, in_process, serving, write_lines
from tests.scripted import Json, Reply, Script, ScriptedEndpoint

Row = dict[str, Any]
Environment = type[JudgedEnv[Any, Any, Any]]


@dataclass(frozen=True)
class Judged:
    """An evaluation that ended, its run directory, and what its endpoints were asked; nothing of those it had not."""

    ended: Ended
    files: RunFiles
    judge: ScriptedEndpoint
    policy: ScriptedEndpoint

    @property
    def code(self) -> int:
        return self.ended.code

    @property
    def said(self) -> str:
        """What it said, in one line."""
        return " ".join(self.ended.said.split())

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics without their prefix: finite numbers, all of them."""
        found = self.files.metrics
        assert all(math.isfinite(value) for value in found.values())
        return found

    def some(self, *names: str) -> dict[str, float | None]:
        """Metrics of these names; `None` for one that is not there."""
        found = self.metrics
        return {name: found.get(name) for name in names}

    @property
    def general(self) -> dict[str, Any]:
        found: dict[str, Any] = self.files.report["config_general"]
        return found

    @property
    def left_out(self) -> dict[str, str]:
        """Why metrics have no value, by their names without the prefix."""
        return {
            name.removeprefix("eval/"): reason for name, reason in self.general["left_out"].items()
        }

    def scores(self, name: str = "score") -> dict[str, Any]:
        """A field of each finished row, by its id."""
        return {sample["uid"]: sample[name] for sample in self.files.samples}

    def details(self, name: str) -> dict[str, Any]:
        """A field of the judgment's detail of each finished row, by its id."""
        return {sample["uid"]: sample["detail"][name] for sample in self.files.samples}

    def lacks(self, *words: str) -> list[str]:
        """Which of these it did not say; a traceback is nothing to say."""
        assert "Traceback" not in self.ended.said
        return [word for word in words if word not in self.said]


def evaluate(
    env_type: Environment,
    path: Path,
    *flags: str,
    rows: Sequence[Row] | Path | None = None,
    judge: Script | Reply | str | None = None,
    policy: Script | Reply | str | None = None,
    run: str = "run",
    env: Mapping[str, str] | None = None,
) -> Judged:
    """Evaluate rows, or the bundled samples with `rows=None`, without pauses.

    An endpoint without a script is not set at all: it is the default one of the settings.
    """
    judging, answering = ScriptedEndpoint(), ScriptedEndpoint()
    if rows is None:
        data = ["--offline"]
    else:
        data = [
            f"--env.eval_dataset={rows if isinstance(rows, Path) else write_lines(path / f'{run}.jsonl', rows)}"
        ]
    with ExitStack() as stack:
        if judge is not None:
            judging = stack.enter_context(serving(judge))
            data += [f"--env.judge_base_url={judging.base_url}", "--env.judge_model_name=the-judge"]
        if policy is not None:
            answering = stack.enter_context(serving(policy))
            data += [f"--openai.base_url={answering.base_url}", "--openai.model_name=the-policy"]
        into = f"--env.data_dir_to_save_evals={path / run}"
        ended = in_process(
            "evaluate", *data, into, "--env.retry_delay=0", *flags, env=env, env_type=env_type
        )
    return Judged(ended, RunFiles(path / run), judging, answering)


def never(request: Json, number: int) -> str:
    """The script of an endpoint that must not be asked."""
    raise AssertionError(f"asked {request['messages'][-1]['content']!r}")
