"""Why a command or a block of a page is not run by a test: what it needs is read from itself, never from a list.

A command runs unless it needs a key, an endpoint or a file that the page does not make, a package
that the tests do not have, or something that only a reader knows. Everything else must run.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterator
from importlib.util import find_spec
from typing import Any

from judgegym.cli.environments import load_environment
from judgegym.datasets.score.command import add_data_flag
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.environments.command_line.arguments import load_settings
from judgegym.environments.command_line.program import VERBS
from judgegym.judges.config.sources import load
from judgegym.llm.urls import is_public
from judgegym.server.settings import RewardServerSettings, add_preset
from tests.docs.blocks import Block, Command
from tests.forking import ROOT
from tests.gate import tomllib

SHELL = frozenset({"cat", "cp", "curl", "head", "ls", "mkdir", "printf", "tail"})
"""The programs of the shell that run as they are."""
_HEAVY = {"torch": "examples", "xllamacpp": "real-model"}
"""Packages whose examples take minutes, where they are installed."""
_OTHERS = frozenset({"gym", "inspect", "openenv", "pytest", "rllm", "serve", "vllm"})
"""Programs of other packages. One that is in no list here is a mistake of the page, or of this list."""
_MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
_INTEGRATIONS = "judgegym_trainers"
_PLACEHOLDER = re.compile(r"…|(?:^|[=/ ])(?:[A-Z]{3,}|[A-Z]+_[A-Z]+)(?:$|/)")
_MODULES = {
    "judgegym.reports": "report",
    "judgegym.reports.compare": "compare",
    "judgegym.reports.view": "view",
    "judgegym.offline": "offline-server",
    "judgegym.server": "judge-server",
}
_PLUGIN = tomllib.loads(
    (ROOT / "examples" / "plugin" / "pyproject.toml").read_text(encoding="utf-8")
)["project"]
_OF_PLUGIN = {name for group in _PLUGIN["entry-points"].values() for name in group}
"""Commands, environments and judges of the example that `tests/test_wheel.py` installs and runs."""
PORT = re.compile(r"(?P<before>(?:127\.0\.0\.1|localhost):|--port[= ])(?P<port>\d{4,5})\b")


def words_of_judgegym(command: Command) -> list[str] | None:
    """The words after `judgegym`, also of a command that is another form of it; none for any other program."""
    words = list(command.words)
    if command.program == "judgegym":
        return None if _is_of_plugin(command) else words
    if command.program == "python" and words[0] == "-m" and words[1] in _MODULES:
        return [_MODULES[words[1]], *words[2:]]
    if command.program == "python" and words[0].endswith("_environment.py") and len(words) > 1:
        return [words[1], words[0], *words[2:]]
    return None


def _is_of_plugin(command: Command) -> bool:
    named = [*command.words[:2], *(word.partition("judge=")[2] for word in command.words)]
    return command.program == "judgegym" and not _OF_PLUGIN.isdisjoint(named)


def why_not_run(command: Command, files: Collection[str], served: Collection[int]) -> str:
    """Why a command is not run; empty for one that is.

    Args:
        command: the command.
        files: what the page has had its reader save.
        served: the ports at which the page's commands before it listen.

    Raises:
        AssertionError: it is a mistake: a program, a target of make or a file of the project that
            is not there.
    """
    words = words_of_judgegym(command)
    if command.program == "make":
        assert re.search(rf"^{command.words[0]}:", _MAKEFILE, re.MULTILINE), (
            f"unknown target: {command}"
        )
    if command.program in ("make", "pip", "uv", "source", "git"):
        return f"set-up: {command.program}"
    if command.program == "export":
        return "a key, or what only the reader knows" if "…" in command.words[0] else ""
    if command.program in _OTHERS:
        return f"another program: {command.program}"
    assert command.program in {"judgegym", "python", "run-api", "cd", *SHELL}, (
        f"unknown program: {command}"
    )
    for word in command.words:
        if _PLACEHOLDER.search(word) and not word.startswith(("{", "[")):
            return f"a placeholder: {word}"
    if _is_of_plugin(command):
        return "a package that is not installed: examples/plugin"
    if words is not None:
        return _of_endpoints(words, served)
    return _of_python(command.words, files) if command.program == "python" else ""


def _of_endpoints(words: list[str], served: Collection[int]) -> str:
    for url in _asked(words):
        port = PORT.search(url)
        if port is None or int(port["port"]) not in served:
            return (
                f"a key: asks {url}"
                if is_public(url)
                else f"an endpoint: nothing on the page listens at {url}"
            )
    return ""


def _asked(words: list[str]) -> Iterator[str]:
    """The base URLs that a command asks, but for stand-ins that it starts itself."""
    command, *rest = words
    if set(rest) & {
        "--help",
        "-h",
        "--help_all",
        "--show_config",
        "--show_config=changed",
        "--plan",
    }:
        return
    if "--offline" in rest:
        named = re.findall(r"base_url[\"']?[=: ]+[\"']?(https?://[^\s\"',]+)", " ".join(rest))
        yield from named
    elif command in VERBS:
        env_type = load_environment(str(ROOT / rest[0]) if (ROOT / rest[0]).is_file() else rest[0])
        settings: Any = load_settings(env_type, rest[1:], verb=command).settings  # type: ignore[arg-type]
        asked = settings.env.endpoints_asked(command, settings.openai.urls)
        yield from (*asked.policy, *asked.judge)
    elif command == "judge-server":
        settings = load(RewardServerSettings, rest, prog=command, reshape=add_preset).settings
        yield from (
            mount.judge_base_url
            for mount in settings.mounted_judges().values()
            if mount.asks_endpoint
        )
    elif command == "score":
        settings_of_score = load(ScoreSettings, add_data_flag(rest), prog=command).settings
        if settings_of_score.merge is None and settings_of_score.asks_endpoint:
            yield settings_of_score.judge_base_url


def _of_python(words: tuple[str, ...], files: Collection[str]) -> str:
    if words[0] == "-c":
        return _of_imports(imported(ast.parse(words[1])))
    if words[0] == "-m":
        if words[1].startswith(("benchmarks", "tests")):
            return "a tool of those who work on the project"
        package = sorted(ROOT.joinpath(*words[1].split(".")).rglob("*.py"))
        return _of_imports(
            {
                words[1],
                *(
                    name
                    for each in package
                    for name in imported(ast.parse(each.read_text(encoding="utf-8")))
                ),
            }
        )
    if words[0] in files:
        return ""
    path = ROOT / words[0]
    if not path.is_file():
        assert "/" not in words[0], f"no such file: {words[0]}"
        return f"the reader's file: {words[0]}"
    beside = sorted(path.parent.glob("*.py")) if path.parent != ROOT / "examples" else [path]
    return _of_imports(
        {name for each in beside for name in imported(ast.parse(each.read_text(encoding="utf-8")))}
    )


def _of_imports(modules: Collection[str]) -> str:
    for name in sorted(modules):
        top = name.partition(".")[0]
        if name.startswith(_INTEGRATIONS):
            return f"a target of tests/trainers/loops: {name}"
        if top in _HEAVY:
            return f"the extra {_HEAVY[top]}: imports {top}"
        if find_spec(top) is None and not (ROOT / top).exists():
            return f"another package: {top}"
    return ""


def imported(tree: ast.Module) -> set[str]:
    """The modules that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return names


def why_not_run_python(block: Block, served: Collection[int]) -> str:
    """Why a block of Python is not run as it stands; empty for one that is."""
    tree = ast.parse(block.text)
    other = _of_imports(imported(tree))
    if other:
        return other
    missing = _undefined(tree)
    if missing:
        return f"a part of a file: {', '.join(missing)}"
    for url in re.findall(r"https?://[^\s\"')]+", block.text):
        port = PORT.search(url)
        if "base_url" in block.text and (port is None or int(port["port"]) not in served):
            return f"an endpoint: {url}"
    return "top-level await: of a notebook" if _awaits(tree) else ""


def _undefined(tree: ast.Module) -> list[str]:
    """The names that a block reads and nowhere sets."""
    known = set(vars(builtins)) | {"__name__", "__file__"}
    read: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else known).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            known.add(node.name)
        elif isinstance(node, ast.arg):
            known.add(node.arg)
        elif isinstance(node, ast.alias):
            known.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            known.add(node.name)
    return sorted(read - known)


def _awaits(tree: ast.Module) -> bool:
    """Whether it awaits outside of a function."""
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            todo.extend(ast.iter_child_nodes(node))
    return False
