"""Commands and environments that installed distributions bring, and what is told of those that cannot be used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from judgegym.cli.commands import main
from tests.command import ROOT, RunFiles, called, clean_environment
from tests.core.cli.command import PROGRAM, judgegym
from tests.core.cli.distributions import BROKEN, COMMANDS, ENVIRONMENTS, install, install_hello


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder in `sys.path` with a distribution; some of what it declares cannot be used."""
    install_hello(tmp_path)
    return tmp_path


REFUSED = {
    "absent": ("absent of hello-plugin 0.1: ", "ModuleNotFoundError", "'no_such_module'"),
    "broken": ("broken of hello-plugin 0.1: ", "broken_plugin.py, line 2", "ValueError: one two"),
    "text": ("text of hello-plugin 0.1: ", "hello_plugin:TEXT", "type str", "judgegym.cli.Command"),
    "two words": ("two words: hello-plugin 0.1 ", "letters, digits", "- and _"),
}
"""By command: how its line begins, a fact that a help of 80 columns shows, and further facts."""
TAKEN = ("score: judgegym and hello-plugin 0.1 ", "that of judgegym")


def test_help_lists_commands_of_distributions_and_those_that_cannot_be_used_with_the_reason(
    here: Path,
) -> None:
    ended = judgegym("--help", cwd=here)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert "  hello NAME                say hello to somebody" in lines[lines.index("plugins:") :]
    assert (
        "  shout                     say it louder"
        in lines[lines.index("data sets:") : lines.index("plugins:")]
    )
    said = lines[lines.index("cannot be used:") + 1 :]
    for begins, fact, *_ in (*REFUSED.values(), TAKEN):
        (line,) = [line for line in said if line.startswith(f"  {begins}")]
        assert fact in line and line in said[: len(REFUSED) + 1]
    assert [line for line in lines if len(line.replace(PROGRAM, "judgegym")) > 80] == []


def test_command_of_a_distribution_runs_with_its_words_and_its_exit_code(here: Path) -> None:
    ended = judgegym("hello", "you", "--and=me", cwd=here)
    assert (ended.code, ended.out, ended.err) == (7, f"{PROGRAM} hello you --and=me\n", "")
    ended = judgegym("hello", "nobody", cwd=here)
    assert (ended.code, ended.out, ended.err) == (2, "", "nobody is there\n")


@pytest.mark.parametrize("name", REFUSED)
def test_command_that_cannot_be_used_says_why(name: str, here: Path) -> None:
    ended = judgegym(name, cwd=here)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    begins, *facts = REFUSED[name]
    assert ended.err.startswith(begins) and all(fact in ended.err for fact in facts), ended.err


def test_module_of_a_command_that_cannot_be_imported_is_told_when_it_is_called(here: Path) -> None:
    (here / "hello_command.py").write_text(BROKEN)
    assert "hello NAME" in judgegym("--help", cwd=here).out
    ended = judgegym("hello", cwd=here)
    assert (ended.code, ended.out) == (2, "")
    assert (
        ended.err
        == f"{PROGRAM} hello: cannot be imported: hello_command.py, line 2: ValueError: one two\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["helo"], "no command 'helo', did you mean hello?"),
        (["evaluate", "own-hiaku"], "no environment 'own-hiaku', did you mean own_haiku?"),
        (["own-haiku", "evaluate"], f"{PROGRAM} evaluate|serve|process own-haiku …"),
    ],
)
def test_wrong_word_is_compared_with_the_names_of_distributions(
    words: list[str], said: str, here: Path
) -> None:
    assert said in judgegym(*words, cwd=here).err


@pytest.mark.parametrize(
    "words", [["hello"], ["evaluate", "own-haiku", "--offline"], ["list", "own_haiku"]]
)
def test_name_that_two_distributions_bring_is_refused_with_both(
    words: list[str], here: Path
) -> None:
    other = {COMMANDS: {"hello": "other:HELLO"}, ENVIRONMENTS: {"own_haiku": "other:Env"}}
    install(here, "other-plugin", other)
    ended = judgegym(*words, cwd=here)
    assert (ended.code, ended.out) == (2, "")
    assert "hello-plugin 0.1" in ended.err and "other-plugin 0.1" in ended.err
    assert "uninstall one" in ended.err and ended.err.count("\n") == 1


def test_list_shows_an_environment_with_its_distribution(here: Path) -> None:
    ended = judgegym("list", "own-haiku", cwd=here)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("own-haiku: Poems of three lines.\n  package   hello-plugin 0.1\n")


@pytest.mark.slow
def test_list_shows_all_and_the_reasons_of_those_that_cannot_be_used(here: Path) -> None:
    ended = judgegym("list", cwd=here)
    assert (ended.code, ended.err) == (0, "")
    paragraphs = [" ".join(paragraph.split()) for paragraph in ended.out.split("\n\n")]
    assert [
        text for text in paragraphs if text.startswith("arena_hard: ") and "package" not in text
    ]
    for begins, ends in (
        ("arena-hard: judgegym and hello-plugin 0.1 ", "that of judgegym is used"),
        ("lost of hello-plugin 0.1: ", "broken_plugin.py, line 2: ValueError: one two"),
        ("no_class of hello-plugin 0.1: hello_plugin:TEXT ", "MyEnv(JudgedEnv[…])"),
    ):
        (reason,) = [text for text in paragraphs if text.startswith(begins)]
        assert reason.endswith(ends)


def test_help_of_a_verb_names_environments_of_distributions(here: Path) -> None:
    assert "\n  own_haiku\n" in judgegym("evaluate", "--help", cwd=here).out


@pytest.mark.slow
@pytest.mark.parametrize("word", ["own-haiku", "own_haiku", "haiku_module"])
def test_environment_of_a_distribution_is_evaluated(word: str, here: Path) -> None:
    ended = judgegym("evaluate", word, "--offline", "--env.data_dir_to_save_evals=run", cwd=here)
    assert ended.code == 0, ended.err
    assert [sample["score"] for sample in RunFiles(here / "run").samples] == [1.0]


@pytest.mark.parametrize("words", [["evaluate", "arena-hard", "--help"], ["score", "--help"]])
def test_built_in_names_read_no_entry_points(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading them takes tens of milliseconds, and what they import takes more."""

    def refuse() -> Iterator[metadata.Distribution]:
        raise AssertionError("the metadata of all distributions are read")

    monkeypatch.setattr(metadata, "distributions", refuse)
    assert called(lambda: main(words), clean_environment()).code == 0
    with pytest.raises(AssertionError, match="the metadata"):
        called(lambda: main(["hello"]), clean_environment())


def test_entry_points_that_cannot_be_read_leave_those_of_others(here: Path) -> None:
    install(here, "torn-plugin", {COMMANDS: {}})
    (here / "torn_plugin-0.1.dist-info" / "entry_points.txt").write_text(
        f"[{COMMANDS}]\nno value\n"
    )
    assert judgegym("shout", cwd=here).code == 7
    out = judgegym("--help", cwd=here).out
    assert (
        "  torn-plugin: the entry_points.txt of torn-plugin 0.1 cannot be read: " in out
        and "  hello NAME " in out
    )


def test_command_of_an_installation_without_metadata_says_how_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a checkout on `PYTHONPATH`, or one that was installed before these commands were entry points."""
    monkeypatch.setattr(metadata, "distributions", lambda: iter(()))
    ended = called(lambda: main(["audit"]), clean_environment())
    assert (ended.code, ended.out) == (2, "")
    first, *_, reason = ended.err.splitlines()
    assert first == "no command 'audit'"
    assert "judgegym is not installed" in reason and ": pip install " in reason
    overview = called(lambda: main(["--help"]), clean_environment())
    assert overview.code == 0 and f"cannot be used:\n  {reason[:60]}" in overview.out


def test_core_names_no_other_package() -> None:
    """What is not the core comes in by entry points alone."""
    names = re.compile(rb"judgegym_tr(ainers|ials)")
    files = [
        path for path in (ROOT / "judgegym").rglob("*") if path.is_file() and path.suffix != ".pyc"
    ]
    assert [path for path in files if names.search(path.read_bytes())] == []


def test_a_distribution_cannot_take_a_command_of_the_package(here: Path) -> None:
    install(here, "audit-plugin", {COMMANDS: {"audit": "hello_plugin:HELLO"}})
    assert judgegym("audit", "--help", cwd=here).out.startswith(f"usage: {PROGRAM} audit ")
    begins = "  audit: judgegym and audit-plugin 0.1 "
    lines = judgegym("--help", cwd=here).out.splitlines()
    (line,) = [line for line in lines if line.startswith(begins)]
    assert line.endswith("that of judgegym is used")
