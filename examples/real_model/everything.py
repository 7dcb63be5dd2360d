"""Everything in one go: the behaviours, an evaluation of each environment, rollouts for a trainer, and the output.

Guarantees: a run that fails stands in the table with what it said, and the others are still made; the exit code is 1
then. The server and all commands end with this process.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from examples.real_model import behaviours, configs, model, page, table, training
from examples.real_model.commands import JUDGEGYM, finished
from examples.real_model.configs import Run
from examples.real_model.measured import Measured
from examples.real_model.server import CORES, DEFAULT_PORT, ROOT, Running, ServerSettings, running
from judges.llm.errors import RunDirectoryError

_USUAL = ServerSettings()


@dataclass(frozen=True, slots=True)
class Output:
    """Where everything is written.

    Attributes:
        folder: of run directories, logs and the output.
        page: a page of the handbook that gets the output, too.
    """

    folder: Path
    page: Path | None = None


def run_everything(settings: ServerSettings, output: Output) -> int:
    """Run everything, print the output, and return the exit code.

    Raises:
        SettingsError: the server cannot be started, or the page has no place for the output.
    """
    if output.page is not None:
        page.check(output.page)
    began = time.monotonic()
    output.folder.mkdir(parents=True)
    _say(f"starting llama.cpp with {model.NAME}; runs and logs are in {output.folder}")
    with running(settings, output.folder / "server.log") as server:
        _say(f"it is ready at {settings.url}/v1 after {server.seconds_to_load:.1f} s")
        found = list(behaviours.measure(server))
        _say(f"asked for {len(found)} of its behaviours")
        evaluated = [(run, _evaluate(run, server, output.folder)) for run in configs.RUNS]
        trained = training.train(server, output.folder)
        memory = server.peak_memory()
    measured = [(run, result) for run, result in evaluated if isinstance(result, Measured)]
    failed = [(run.name, result) for run, result in evaluated if isinstance(result, str)]
    failed += [(configs.TRAINING.name, trained)] if isinstance(trained, str) else []
    text = "\n\n".join(
        [
            _heading(),
            table.evaluations(measured),
            *(f"`{name}` failed: {why}" for name, why in failed),
            "" if isinstance(trained, str) else f"`serve`, with a trainer that takes the batches:\n\n{trained.table()}",
            f"What it costs:\n\n{table.facts(_costs(measured, memory, settings, time.monotonic() - began))}",
            f"How the endpoint behaves:\n\n{table.behaviours(found)}",
        ]
    )
    (output.folder / "output.md").write_text(f"{text}\n", encoding="utf-8")
    if output.page is not None:
        page.put_into(output.page, text)
    print(f"\n{text}\n")
    _say(f"this is {output.folder / 'output.md'}" + ("" if output.page is None else f", and in {output.page}"))
    return 1 if failed else 0


def config_of(run: Run, settings: ServerSettings, folder: Path) -> Path:
    """Return the file of settings of a run: the one in `configs/`, or for another server one that is written here."""
    text = run.text(settings)
    if (settings.port, settings.slots) == (DEFAULT_PORT, _USUAL.slots) and run.path.read_text(encoding="utf-8") == text:
        return run.path.relative_to(ROOT)
    path = folder / f"{run.name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _evaluate(run: Run, server: Running, folder: Path) -> Measured | str:
    """Evaluate an environment; a text says why there is no result."""
    directory, log = folder / run.name, folder / f"{run.name}.log"
    words = [*run.words(config_of(run, server.settings, folder)), f"--env.data_dir_to_save_evals={directory}"]
    _say(" ".join(["judgegym", *words]))
    code = finished([*JUDGEGYM, *words], log)
    try:
        measured = Measured.of(directory)
    except RunDirectoryError:
        return f"exit code {code}: {last_line(log)}"
    _say(f"    {measured.verdicts} of {measured.rows} rows have a verdict, {measured.result}")
    return measured


def last_line(log: Path) -> str:
    """Return the last line that a command has said."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _heading() -> str:
    made = datetime.now().astimezone().strftime("%Y-%m-%d")
    packages = ", ".join(f"{name} {version}" for name, version in model.versions().items())
    return f"Measured on {made} with `make real-model`: {packages}; Python {platform.python_version()}, {CORES} cores."


def _costs(
    measured: Sequence[tuple[Run, Measured]], memory: int, settings: ServerSettings, seconds: float
) -> list[tuple[str, str]]:
    packages = [(f"disk: {name}", f"{size / 1e6:.0f} MB") for name, size in model.installed_bytes().items()]
    file = model.assemble(settings.cache or model.default_cache())
    out = sum(each.tokens_out for _, each in measured)
    spent = sum(each.seconds for _, each in measured)
    return [
        *packages,
        ("disk: the model's file, assembled", f"{file.stat().st_size / 1e6:.0f} MB"),
        ("memory of the server, at most", f"{memory / 1e6:.0f} MB"),
        ("completion tokens a second, over all evaluations", f"{out / spent:.0f}" if spent else "unknown"),
        ("minutes, all of it", f"{seconds / 60:.1f}"),
    ]


def _say(what: str) -> None:
    print(what, flush=True)
