"""Run everything: probes of the endpoint, evaluations, rollouts for a trainer; print the output.

Guarantees: a failed run is listed below the table with its error, the others still run, and the
exit code is 1. Ctrl-C prints the results so far, and leaves the page unchanged. The server and all
commands end with this process.
"""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from examples.processes import ROOT
from examples.real_model import behaviours, configs, model, page, table, training
from examples.real_model.behaviours import Behaviour
from examples.real_model.commands import JUDGEGYM, run_to_end
from examples.real_model.configs import Run
from examples.real_model.measured import RunNumbers
from examples.real_model.server import CORES, RunningServer, ServerSettings, running
from judgegym.llm.errors import RunDirectoryError, SettingsError

_USUAL = ServerSettings()


@dataclass(frozen=True, slots=True)
class Output:
    """The paths of the output.

    Attributes:
        folder: the folder of run directories, logs and the output.
        page: a page of the handbook to update, too.
    """

    folder: Path
    page: Path | None = None


@dataclass
class Results:
    """The results so far.

    Attributes:
        settings: the server's settings.
        behaviours: the endpoint's behaviours.
        evaluated: the evaluated runs with their numbers.
        failed: the failed runs with their errors.
        trained: the trainer's checks.
        memory: the server's peak memory, in bytes.
        computed: the server's processor time, in seconds.
        load: the load average of the machine at the start.
        began: the start, on the monotonic clock.
    """

    settings: ServerSettings
    behaviours: list[Behaviour] = field(default_factory=list)
    evaluated: list[tuple[Run, RunNumbers]] = field(default_factory=list)
    failed: list[tuple[Run, str]] = field(default_factory=list)
    trained: training.TrainingCheck | None = None
    memory: int = 0
    computed: float = 0.0
    load: float = field(default_factory=lambda: os.getloadavg()[0])
    began: float = field(default_factory=time.monotonic)

    def text(self) -> str:
        """Return the results as Markdown."""
        parts = [_heading(), table.evaluations(self.evaluated)]
        parts += [f"`{run.name}` failed: {why}" for run, why in self.failed]
        if self.trained is not None:
            parts.append(
                f"`serve`, with a trainer that takes the batches:\n\n{self.trained.table()}"
            )
        parts.append(f"What it costs:\n\n{table.facts(self._costs())}")
        parts.append(f"How the endpoint behaves:\n\n{table.behaviours(self.behaviours)}")
        return "\n\n".join(parts)

    def _costs(self) -> list[tuple[str, str]]:
        packages = [
            (f"disk: {name}", f"{size / 1e6:.0f} MB")
            for name, size in model.installed_bytes().items()
        ]
        file = model.assemble(self.settings.cache or model.default_cache())
        minutes = (time.monotonic() - self.began) / 60
        return [
            *packages,
            ("disk: the model's file, assembled", f"{file.stat().st_size / 1e6:.0f} MB"),
            ("memory of the server, at most", f"{self.memory / 1e6:.0f} MB"),
            (
                "processor time of the server",
                f"{self.computed / 60:.1f} minutes, {self.settings.threads} of {CORES} cores",
            ),
            ("time, all of it", f"{minutes:.1f} minutes"),
            (
                "other work on the machine",
                f"load {self.load:.1f} when it began, {os.getloadavg()[0]:.1f} at its end",
            ),
        ]


def run_everything(settings: ServerSettings, output: Output) -> int:
    """Run everything, print the output, and return the exit code.

    Raises:
        SettingsError: the server cannot be started, the folder cannot be created, or the page lacks
            the marks.
    """
    if output.page is not None:
        page.check(output.page)
    try:
        output.folder.mkdir(parents=True)
    except OSError as error:
        raise SettingsError(f"--out: {output.folder} cannot be made: {error.strerror}") from error
    results = Results(settings)
    print(f"starting llama.cpp with {model.NAME}; runs and logs are in {output.folder}", flush=True)
    code = 0
    try:
        with running(settings, output.folder / "server.log") as server:
            _measure(server, output.folder, results)
    except KeyboardInterrupt:
        print("stopped; the server has ended. So far:")
        code = 130
    text = results.text()
    (output.folder / "output.md").write_text(f"{text}\n", encoding="utf-8")
    print(f"\n{text}\n\nThis is {output.folder / 'output.md'}")
    if output.page is not None and not code:
        page.put_into(output.page, text)
        print(f"and in {output.page}")
    return code or int(bool(results.failed))


def _measure(server: RunningServer, folder: Path, results: Results) -> None:
    """Add the results one by one."""
    print(
        f"it is ready at {server.settings.url}/v1 after {server.seconds_to_load:.1f} s", flush=True
    )
    for behaviour in behaviours.measure(server):
        results.behaviours.append(behaviour)
    print(f"asked for {len(results.behaviours)} of its behaviours", flush=True)
    for run in configs.RUNS:
        measured = _evaluate(run, server, folder)
        if isinstance(measured, str):
            results.failed.append((run, measured))
        else:
            results.evaluated.append((run, measured))
        results.memory, results.computed = server.peak_memory(), server.processor_seconds()
    trained = training.train(server, folder)
    if isinstance(trained, str):
        results.failed.append((configs.TRAINING, trained))
    else:
        results.trained = trained
    results.memory, results.computed = server.peak_memory(), server.processor_seconds()


def _evaluate(run: Run, server: RunningServer, folder: Path) -> RunNumbers | str:
    """Evaluate an environment; return its numbers, or why there are none."""
    directory, log = folder / run.name, folder / f"{run.name}.log"
    words = [
        *run.words(_locate_config(run, server.settings, folder)),
        f"--env.data_dir_to_save_evals={directory}",
    ]
    print(" ".join(["judgegym", *words]), flush=True)
    code = run_to_end([*JUDGEGYM, *words], log)
    try:
        measured = RunNumbers.read(directory)
    except RunDirectoryError:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last_line = lines[-1] if lines else "it said nothing"
        return f"exit code {code}: {last_line}"
    print(
        f"    {measured.verdicts} of {measured.rows} rows have a verdict; {measured.result}",
        flush=True,
    )
    return measured


def _locate_config(run: Run, settings: ServerSettings, folder: Path) -> Path:
    """Return a run's config file: that of `configs/`, or for other server settings a new one."""
    if (settings.port, settings.slots) == (_USUAL.port, _USUAL.slots):
        return run.path.relative_to(ROOT)
    path = folder / f"{run.name}.yaml"
    path.write_text(run.text(settings), encoding="utf-8")
    return path


def _heading() -> str:
    made = datetime.now().astimezone().strftime("%Y-%m-%d")
    packages = ", ".join(f"{name} {version}" for name, version in model.versions().items())
    return f"Measured on {made}: {packages}; Python {platform.python_version()}, {CORES} cores."
