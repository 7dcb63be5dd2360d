"""The command line as a whole: verbs, help, exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest

from judgegym.environments.command_line.arguments import load_settings
from judgegym.environments.command_line.main import main
from judgegym.environments.training.process import forecast
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.judges.config.extras import install_command
from tests.command import in_process

VERBS = ("evaluate", "serve", "process")


def test_main_without_arguments_of_its_own_takes_the_processs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["x.py", "nonsense"])
    assert main(ArenaHardEnv) == 2
    with pytest.raises(SystemExit) as leaving:
        ArenaHardEnv.cli()
    assert leaving.value.code == 2


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_lists_the_most_used_of_its_settings_and_help_all_every_one(
    verb: str,
) -> None:
    common, everything = in_process(verb, "--help"), in_process(verb, "--help_all")
    assert (common.code, everything.code) == (0, 0)
    assert 12 <= common.out.count("\n  --") <= 28 < 50 < everything.out.count("\n  --")
    for flag in ("--openai.base_url", "--config", "--offline"):
        assert flag in common.out and flag in everything.out
    assert "--env.judge_deadline" not in common.out and "--env.judge_deadline" in everything.out
    assert ("--env.group_size" in everything.out) == (verb != "evaluate")
    assert "--resume" in everything.out
    assert ("--limit" in everything.out) == (verb != "serve")


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--help", "--help_all"])
def test_help_of_every_verb_has_no_line_that_a_terminal_of_80_columns_breaks(flag: str) -> None:
    lines = [
        line
        for verb in VERBS
        for line in in_process(verb, flag, env={"COLUMNS": "80"}).out.splitlines()
    ]
    assert [line for line in lines if len(line) > 80 and not line.startswith("usage: ")] == []


def test_show_config_shows_the_verbs_settings_or_only_those_that_were_changed() -> None:
    names = {
        line.split()[0]
        for line in in_process("serve", "--show_config", "--env.seed=5").out.splitlines()
    }
    assert "env.group_size" in names and names.isdisjoint({"env.model_answers", "limit"})
    changed = in_process("serve", "--show_config=changed", "--env.seed=5", "--env.group_size=4").out
    assert [
        line.split() for line in changed.splitlines() if not line.startswith("show_config")
    ] == [["env.seed", "5", "[command", "line]"]], "a group size of 4 is the default"


HEAVY = (
    "atroposlib",
    "datasets",
    "numpy",
    "rich",
    "scipy",
    "sklearn",
    "tiktoken",
    "transformers",
    "wandb",
)
MAIN = """from judgegym.environments.command_line.main import main
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
"""


def loaded_by(*argv: str, path: Path) -> set[str]:
    """Which of the heavy packages a command line loads, in a process of its own."""
    said = "print('loaded', *(name for name in %r if name in sys.modules), file=sys.stderr)"
    code = (
        f"import sys; {MAIN}\ncode = main(ArenaHardEnv, {list(argv)!r}); {said % (HEAVY,)}; "
        "sys.exit(code)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=path, check=True
    )
    return set(ended.stderr.rpartition("loaded")[2].split())


@pytest.fixture(scope="module")
def loaded_by_help(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Half a second of CPU, which is no test's own: also the gate tells that a command has become heavy."""
    return loaded_by("--help", path=tmp_path_factory.mktemp("help"))


@pytest.mark.slow
def test_help_loads_no_heavy_package(loaded_by_help: set[str]) -> None:
    assert loaded_by_help == set()


@pytest.mark.slow
@pytest.mark.parametrize("argv", [("serve", "--help_all"), ("evaluate", "--show_config")])
def test_full_help_and_show_config_load_no_heavy_package(
    argv: tuple[str, ...], tmp_path: Path
) -> None:
    assert loaded_by(*argv, path=tmp_path) == set()


@pytest.mark.slow
def test_offline_evaluate_loads_what_it_computes_and_draws_with(tmp_path: Path) -> None:
    assert loaded_by("evaluate", "--offline", "--limit=1", path=tmp_path) == {"numpy", "rich"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "extra", "flags"),
    [
        ("rich", "environments", ()),
        ("scipy", "environments", ()),
        ("wandb", "wandb", ("--env.use_wandb=True",)),
        ("datasets", "data", ("--env.train_prompt_dataset=some/name",)),
    ],
)
def test_missing_extra_is_named_in_one_message_with_exit_code_2(
    module: str, extra: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; {MAIN}"
    code += f"\nsys.exit(main(ArenaHardEnv, ['evaluate', '--offline', *{flags!r}]))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.splitlines()[-1] == f"{module} is not installed: {install_command(extra)}"
    assert "Traceback" not in ended.stderr
    assert not list(tmp_path.glob("runs/*/samples.jsonl"))


def test_help_of_evaluate_names_the_data_that_count_for_it() -> None:
    evaluate, serve = (in_process(verb, "--help").out for verb in ("evaluate", "serve"))
    assert "--env.eval_prompt_dataset" in evaluate and "--env.train_prompt_dataset" not in evaluate
    assert "--env.train_prompt_dataset" in serve


def test_process_says_before_it_begins_how_much_it_will_ask_for() -> None:
    said = forecast(100, 4, 10)
    assert "400 completions" in said and "(100 groups of 4, each row about 10 times)" in said
    assert "a judgment" in said and "--env.total_steps" in said
    assert load_settings(ArenaHardEnv, [], verb="process").settings.env.total_steps == 100
    assert load_settings(ArenaHardEnv, [], verb="serve").settings.env.total_steps == 1000
