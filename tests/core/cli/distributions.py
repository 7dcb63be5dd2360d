"""Distributions with entry points, as an installer leaves them: a folder of metadata beside the modules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

Groups = Mapping[str, Mapping[str, str]]
COMMANDS, ENVIRONMENTS = "judgegym.commands", "judgegym.environments"

HELLO = """
from judgegym.cli import Command

HELLO = Command("say hello to somebody", "hello_command", "NAME")
SHOUT = Command("say it louder", "quiet_command", group="data sets")
TEXT = "no command"
"""
MODULE = """
import argparse

from judgegym import SettingsError


def make_parser(prog):
    parser = argparse.ArgumentParser(prog)
    parser.add_argument("name", choices=["ann", "bob"])
    return parser


def main(argv, *, prog):
    if argv == ["nobody"]:
        raise SettingsError("nobody is there")
    print(prog, *argv)
    return 7
"""
BROKEN = "\nraise ValueError('one\\n  two')\n"
ENVIRONMENT = """
from dataclasses import dataclass

from judgegym.environments import EnvConfig, EnvSpec, JudgedEnv, Judgment, PromptTask, Status


@dataclass(frozen=True)
class Lines:
    count: int


class HaikuEnv(JudgedEnv[EnvConfig, PromptTask, Lines]):
    \"\"\"Poems of three lines.\"\"\"

    spec = EnvSpec(name="haiku", headline=("mean_reward", "reward"))

    def tasks(self, split):
        return [PromptTask("poem", ())]

    def conversations(self, task):
        return [[{"role": "user", "content": "Write a poem."}]]

    async def judge(self, task, completions):
        count = len(completions[0].answer.splitlines())
        return Judgment(1.0 if count else 0.0, Status.OK, None, None, (), Lines(count))

    def record_metrics(self, metrics, task, sample):
        metrics.mean("mean_reward", sample.score or 0.0)
"""
QUIET = "def main(argv, *, prog):\n    return 7\n"


def install(
    folder: Path, project: str, groups: Groups, modules: Mapping[str, str] | None = None
) -> None:
    """Write version 0.1 of a distribution into a folder that is in `sys.path`."""
    metadata = folder / f"{project.replace('-', '_')}-0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: 0.1\n")
    sections = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in names.items())
        for group, names in groups.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(sections))
    for name, text in (modules or {}).items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


def install_hello(folder: Path) -> None:
    """A distribution with commands and environments; some of them cannot be used."""
    groups = {
        COMMANDS: {
            "hello": "hello_plugin:HELLO",
            "shout": "hello_plugin:SHOUT",
            "absent": "no_such_module:X",
            "broken": "broken_plugin:X",
            "text": "hello_plugin:TEXT",
            "score": "hello_plugin:HELLO",
            "two words": "hello_plugin:HELLO",
        },
        ENVIRONMENTS: {
            "own-haiku": "haiku_plugin:HaikuEnv",
            "haiku_module": "haiku_plugin",
            "lost": "broken_plugin:HaikuEnv",
            "no_class": "hello_plugin:TEXT",
            "arena-hard": "haiku_plugin:HaikuEnv",
        },
    }
    modules = {
        "hello_plugin": HELLO,
        "hello_command": MODULE,
        "quiet_command": QUIET,
        "broken_plugin": BROKEN,
        "haiku_plugin": ENVIRONMENT,
    }
    install(folder, "hello-plugin", groups, modules)
