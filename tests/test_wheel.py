"""The wheel: it holds what the checkout's package holds, and what is installed from it runs outside a checkout."""

from __future__ import annotations

import asyncio
import configparser
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from judgegym.cli.commands import COMMANDS
from judgegym.cli.environments import built_in_modules
from judgegym.judges.scorers.registry import JUDGES
from tests.command import ROOT, RunFiles, clean_environment
from tests.house.counting import PACKAGES
from tests.trainer import training

PLUGIN = "judgegym_trainers/verifiers_plugin/__init__.py"
"""It is a top-level package of the wheel under the name of each plugin: verifiers finds one by such a name."""
PLUGINS = {f"judgegym_{name}" for name in ("environment", "group", *JUDGES, *built_in_modules())}
OUTSIDE_OF_PACKAGES = ("LICENSE", "README.md", "pyproject.toml", "setup.py")
ENTRY_POINTS = ("console_scripts", "inspect_ai", "judgegym.commands", "rllm.evaluators")
DOCUMENTS = (".md", ".png")
"""What a package's folder holds for readers of the repository; nothing reads it at run time."""
COPIED = "/resources_servers/"
"""A folder that is put elsewhere as a whole, with its documents."""
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
IMPORT_A_PLUGIN = """
try:
    import judgegym_rubric
except ImportError as error:
    print(error)
"""
LONGEST_S = 300
pytestmark = pytest.mark.timeout(LONGEST_S)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the checkout: built in the checkout, it would hold files of earlier builds."""
    pytest.importorskip("setuptools", minversion="77", reason="needs setuptools, of the extra dev")
    folder = tmp_path_factory.mktemp("built")
    copy = folder / "checkout"
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in OUTSIDE_OF_PACKAGES:
        shutil.copy(ROOT / name, copy / name)
    return built(copy, folder)


def built(source: Path, folder: Path) -> Path:
    """Build the wheel of a project into a folder."""
    command = [sys.executable, "-c", BUILD, str(folder)]
    ended = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=LONGEST_S)
    assert ended.returncode == 0, ended.stderr
    return folder / ended.stdout.splitlines()[-1]


def files_of_packages() -> set[str]:
    """The files of all packages, and those of the plugins' top-level modules."""
    found = set()
    for package in PACKAGES:
        for folder, _, names in os.walk(ROOT / package):
            if not folder.endswith("__pycache__"):
                found |= {(Path(folder) / name).relative_to(ROOT).as_posix() for name in names}
    own = {name for name in found - {PLUGIN} if not name.endswith(DOCUMENTS) or COPIED in name}
    return own | {f"{plugin}/__init__.py" for plugin in PLUGINS}


def test_wheel_holds_every_file_of_the_packages_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == files_of_packages()
    assert "judgegym/presets/arena_hard_evaluate.yaml" in held
    assert "judgegym_rubric/__init__.py" in held


def test_wheel_takes_no_name_that_another_package_could_have(wheel: Path) -> None:
    """PyPI has a package `judges`, and a user's folder may have any `environments`."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" not in name}
    assert all(name == "judgegym" or name.startswith("judgegym_") for name in names), names


def test_wheel_names_what_frameworks_find_by_entry_points(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (
            name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")
        )
        parser = configparser.ConfigParser()
        parser.optionxform = str  # type: ignore[assignment,method-assign]  # names as they are
        parser.read_string(archive.read(name).decode())
        held = set(archive.namelist())
    assert parser["inspect_ai"]["judgegym"] == "judgegym_trainers.inspect_ai"
    for group in ENTRY_POINTS:
        for value in parser[group].values():
            module = value.partition(":")[0].replace(".", "/")
            assert {f"{module}.py", f"{module}/__init__.py"} & held, value


class Installed:
    """An environment with the wheel, and a folder outside of the checkout."""

    def __init__(self, folder: Path, cwd: Path) -> None:
        self.bin, self.cwd = folder / "bin", cwd
        variables = {
            name: value for name, value in clean_environment().items() if name != "PYTHONPATH"
        }
        self.variables = {
            **variables,
            "PATH": f"{self.bin}{os.pathsep}{variables['PATH']}",
            "COLUMNS": "80",
        }

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command of the environment to its end; gives its output, or its errors."""
        ended = subprocess.run(
            [str(self.bin / words[0]), *words[1:]],
            cwd=self.cwd,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
        assert (ended.returncode, "Traceback" in ended.stderr) == (code, False), ended.stderr
        return ended.stdout if code == 0 else ended.stderr


def install(folder: Path, wheels: Sequence[Path], *extras: str) -> None:
    """Make an environment with wheels, the first of them ours, and with what that one needs.

    What it needs is linked from this environment: of the distributions that its metadata names, no
        other.
    """
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=LONGEST_S
    )
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(folder / "bin" / "python"),
        "install",
        "--quiet",
    ]
    ended = subprocess.run(
        [*command, "--no-index", "--no-deps", *map(str, wheels)],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    if ended.returncode != 0:
        pytest.skip(f"pip cannot install a wheel here: {ended.stderr.strip().splitlines()[-1:]}")
    (site,) = (folder / "lib").glob("python*/site-packages")
    (ours,) = metadata.distributions(name="judgegym", path=[str(site)])
    for distribution in needed(ours, extras):
        for top in {
            file.parts[0]
            for file in distribution.files or ()
            if file.parts[0] not in ("..", "__pycache__")
        }:
            if not (site / top).exists():  # a namespace that several distributions share
                (site / top).symlink_to(str(distribution.locate_file(top)))


def needed(ours: metadata.Distribution, extras: Sequence[str]) -> Iterator[metadata.Distribution]:
    """The distributions of this environment that ours needs with its extras, and those that they need."""
    queue, seen = [("judgegym", extra) for extra in ("", *extras)], set()
    while queue:
        name, wanted = queue.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        distribution = ours if name == "judgegym" else metadata.distribution(name)
        if distribution is not ours:
            yield distribution
        for line in distribution.requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": wanted}):
                name = canonicalize_name(requirement.name)
                queue += [(name, "")] + [(name, each) for each in sorted(requirement.extras)]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel with the dependencies of `environments`."""
    folder = tmp_path_factory.mktemp("installed") / "environment"
    install(folder, [wheel], "environments")
    return Installed(folder, tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel without extras."""
    folder = tmp_path_factory.mktemp("core") / "environment"
    install(folder, [wheel])
    return Installed(folder, tmp_path_factory.mktemp("elsewhere"))


def test_what_is_installed_is_the_wheel(installed: Installed) -> None:
    assert str(ROOT) not in installed.run(
        "python", "-c", "import judgegym; print(judgegym.__file__)"
    )
    assert installed.run("judgegym", "--version").startswith("judgegym 0.")


def test_list_names_environments_and_presets(installed: Installed) -> None:
    listed = installed.run("judgegym", "list")
    assert "arena_hard:" in listed and "--config arena_hard_evaluate" in listed


def test_evaluate_with_a_bundled_preset_and_samples_then_compare_and_report(
    installed: Installed,
) -> None:
    for name, seed in (("one", "0"), ("two", "1")):
        installed.run(
            *("judgegym", "evaluate", "arena_hard", "--offline", "--config=arena_hard_evaluate"),
            *(f"--env.data_dir_to_save_evals={name}", f"--env.seed={seed}"),
        )
    assert len(RunFiles(installed.cwd / "one").samples) == 12
    assert "one" in installed.run(
        "judgegym", "compare", "one", "two", "--across_protocols", "--html=compared.html"
    )
    assert (installed.cwd / "compared.html").is_file()
    installed.run("judgegym", "report", "one", "--output=page.html")
    assert (installed.cwd / "page.html").is_file()


@pytest.mark.parametrize(
    "environment", ["pairwise_judgement", "aspect_critique", "self_critique", "rubric_absolute"]
)
def test_every_environment_evaluates_its_bundled_samples(
    environment: str, installed: Installed
) -> None:
    place = f"--env.data_dir_to_save_evals=runs/{environment}"
    preset = f"--config={environment}_evaluate"
    installed.run("judgegym", "evaluate", environment, "--offline", "--limit=2", preset, place)
    assert len(RunFiles(installed.cwd / "runs" / environment).samples) == 2


def test_packages_of_the_user_hide_none_of_ours(installed: Installed) -> None:
    folder = installed.cwd / "with_packages"
    for name in ("judges", "environments", "eval_environments", "configs"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise ImportError('a package of the user')\n")
    beside = Installed(installed.bin.parent, folder)
    beside.run("python", "-m", "judgegym", "evaluate", "arena_hard", "--offline", "--limit=2")
    beside.run("judgegym", "judge-server", "--offline", "--judge=rubric", "--show_config")


def test_process_writes_groups_and_their_page(installed: Installed) -> None:
    installed.run(
        "judgegym",
        "process",
        "rubric-absolute",
        "--offline",
        "--env.total_steps=2",
        "--env.group_size=2",
    )
    lines = (installed.cwd / "data" / "rubric_absolute.jsonl").read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 2
    assert list((installed.cwd / "data").glob("*.html"))


def test_view_serves_the_runs_until_ctrl_c(installed: Installed) -> None:
    (installed.cwd / "empty").mkdir()
    with subprocess.Popen(
        [str(installed.bin / "judgegym"), "view", "empty", "--port=0"],
        cwd=installed.cwd,
        env=installed.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as viewing:
        try:
            assert viewing.stdout is not None and viewing.stderr is not None
            line = viewing.stdout.readline()
            (url,) = [word for word in line.split() if word.startswith("http://")]
            with urllib.request.urlopen(url, timeout=LONGEST_S) as page:
                assert b"<html" in page.read()
            viewing.send_signal(signal.SIGINT)
            assert viewing.wait(LONGEST_S) == 130
            assert "Traceback" not in viewing.stderr.read()
        finally:
            viewing.kill()


def test_servers_say_what_they_take(installed: Installed) -> None:
    assert "usage: judgegym judge-server" in installed.run(
        "judgegym", "judge-server", "--help"
    ).replace(str(installed.bin) + "/", "")
    config = installed.run(
        "judgegym", "judge-server", "--config=reward_server_rubric", "--show_config=changed"
    )
    assert "presets/reward_server_rubric.yaml" in config
    assert "--latency_ms" in installed.run("judgegym", "offline-server", "--help")


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["evaluate", "arena_hard", "--offline"], "environments"),
        (["process", "arena_hard", "--offline"], "environments"),
        (["report", "a"], "environments"),
        (["completion", "bash"], "completion"),
    ],
)
def test_command_without_its_extra_names_it(words: list[str], extra: str, core: Installed) -> None:
    assert f"pip install 'judgegym[{extra}] @ file:///" in core.run("judgegym", *words, code=2)


def test_plugins_are_top_level_modules_that_name_what_they_need(core: Installed) -> None:
    assert "pip install 'judgegym[verifiers] @ file:///" in core.run(
        "python", "-c", IMPORT_A_PLUGIN
    )
    place = core.run(
        "python",
        "-c",
        "from importlib.util import find_spec; print(find_spec('judgegym_rubric').origin)",
    )
    assert str(ROOT) not in place


def test_core_lists_environments_and_runs_the_servers(core: Installed) -> None:
    assert re.search(r"environments  .*\(not installed\)", core.run("judgegym", "list"))
    core.run("judgegym", "judge-server", "--offline", "--judge=rubric", "--show_config")
    core.run("judgegym", "offline-server", "--help")


def test_core_loads_nothing_of_the_other_packages(core: Installed) -> None:
    code = (
        "import sys; from judgegym import RubricJudge; "
        "print([name for name in sys.modules if name.partition('.')[0] in ('judgegym_trainers', "
        "'judgegym_trials')])"
    )
    assert core.run("python", "-c", code) == "[]\n"


def test_every_command_of_an_empty_environment_answers_within_80_columns(core: Installed) -> None:
    overview = core.run("judgegym", "--help")
    points = metadata.distributions(
        name="judgegym", path=[str(*core.bin.parent.glob("lib/python*/site-packages"))]
    )
    entries = next(iter(points)).entry_points.select(group="judgegym.commands").names
    commands = [*COMMANDS, *entries]
    assert {"evaluate", "score", "audit", "replay"} < {*commands}
    for name in commands:
        assert f"\n  {name} " in overview
        shown = core.run("judgegym", name, "--help")
        assert shown.startswith(f"usage: judgegym {name}")
        assert [line for line in shown.splitlines() if len(line) > 80] == [], name


@pytest.mark.parametrize("room", ["environments", "eval_environments", "judges"])
def test_link_of_a_checkout_is_no_second_package(room: str) -> None:
    """Classes that were imported twice would not be the same."""
    command = [sys.executable, "-c", f"import {room}"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_S)
    assert ended.returncode == 1
    assert f"ImportError: the package is judgegym.{room}" in ended.stderr


@pytest.fixture(scope="module")
def with_plugin(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel with what `serve` needs, and the wheel of `examples/plugin`."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(ROOT / "examples" / "plugin", folder / "source")
    install(folder / "environment", [wheel, built(source, folder)], "environments", "training")
    return Installed(folder / "environment", tmp_path_factory.mktemp("elsewhere"))


def test_command_of_the_example_stands_in_help_and_prints_the_best_answers(
    with_plugin: Installed,
) -> None:
    assert "  best RUN [COUNT]          print the best answers of a run" in with_plugin.run(
        "judgegym", "--help"
    )
    with_plugin.run(
        "judgegym", "evaluate", "haiku", "--offline", "--env.data_dir_to_save_evals=run"
    )
    samples = RunFiles(with_plugin.cwd / "run").samples
    best = max(sample["score"] for sample in samples)
    assert [sample["status"] for sample in samples] == ["ok"] * 3
    shown = with_plugin.run("judgegym", "best", "run", "1")
    assert shown.partition(" ")[2].partition("\n")[0].endswith(f": {best:g}")
    assert "nowhere" in with_plugin.run("judgegym", "best", "nowhere", code=2)


def test_environment_of_the_example_is_listed_and_writes_groups(with_plugin: Installed) -> None:
    listed = with_plugin.run("judgegym", "list")
    assert (
        "haiku: Poems of three lines, scored by a rubric.\n  package   haiku-plugin 0.1\n" in listed
    )
    with_plugin.run(
        "judgegym", "process", "haiku", "--offline", "--env.total_steps=2", "--env.group_size=2"
    )
    groups = map(json.loads, (with_plugin.cwd / "data" / "haiku.jsonl").read_text().splitlines())
    assert [len(group["scores"]) for group in groups] == [2, 2]


def test_judge_of_the_example_judges_a_policy_and_rows(with_plugin: Installed) -> None:
    where = "--env.data_dir_to_save_evals=judged"
    (with_plugin.cwd / "rows.jsonl").write_text(
        '{"prompt": "A haiku?", "response": "Rain again, it falls."}\n'
    )
    with_plugin.run(
        "judgegym", "evaluate", "prompts", "--offline", "--env.judge=syllables", "--limit=2", where
    )
    assert [sample["status"] for sample in RunFiles(with_plugin.cwd / "judged").samples] == [
        "ok"
    ] * 2
    with_plugin.run(
        "judgegym", "score", "rows.jsonl", "--offline", "--judge=syllables", "--out", "scored.jsonl"
    )
    (row,) = map(json.loads, (with_plugin.cwd / "scored.jsonl").read_text().splitlines())
    assert row["judge/status"] == "ok" and 0 <= row["judge/score"] <= 1


async def test_environment_of_the_example_serves_a_trainer(with_plugin: Installed) -> None:
    async with training(8) as trainer:
        flags = (
            f"--env.rollout_server_url={trainer.url}",
            "--env.group_size=4",
            "--env.total_steps=2",
        )
        serving = asyncio.to_thread(
            with_plugin.run, "judgegym", "serve", "haiku", "--offline", *flags
        )
        (batch, _), _ = await asyncio.gather(trainer.take(2), serving)
    assert len(batch) == 2 and all(0 <= score <= 1 for group in batch for score in group["scores"])
