"""What a trainer's environment needs beside a reward server, and what a script leaves behind when it ends."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

import judgegym_trainers
from judgegym.judges.config.extras import EXTRAS, TRAINERS, install_command
from tests.core.server.running import running

ROOM = Path(judgegym_trainers.__file__).parent

SHARED = ("group_rewards", "scores", "single_turn")
"""What is no target."""
EXTRA_OF = {
    "inspect_ai": "inspect",
    "nemo_gym": "nemo-gym",
    "ray_serve": "ray",
    "skyrl_gym": "skyrl-gym",
}
"""The extra of a target whose module is not called so."""
WITHOUT_EXTRA = {"rllm": {"rllm"}, "slime": set()}
"""The packages of targets that are not on the index."""
NOT_IMPORTED = {"__main__", "resources_servers", "verifiers_plugin"}
"""Commands, a folder that is copied, and what is installed as top-level modules."""

IMPORTED = """
import importlib.machinery, importlib.metadata, json, sys
names, found, asked, finders = set(json.loads(sys.argv[1])), {}, set(), list(sys.meta_path)
class Without:
    find_distributions = importlib.machinery.PathFinder.find_distributions
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in names:
            return asked.add(name.partition(".")[0])
        return next((spec for finder in finders if (spec := finder.find_spec(name, path, target))), None)
sys.meta_path[:] = [Without]
for module in json.loads(sys.argv[2]):
    asked.clear()
    try:
        importlib.import_module(module)
        said = ""
    except ImportError as error:
        said = f"{type(error).__name__}: {error}"
    found[module] = (said, sorted(asked))
print(json.dumps(found))
"""

IMPORTS = """
import importlib.metadata, json, re, sys, types
before = set(sys.modules)
for name in ("art", "art.trajectories", "openai", "openai.types.chat.chat_completion"):  # ART's own
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__file__ = "/nowhere/art.py"
    sys.modules[name].__getattr__ = lambda attribute: type(attribute, (), {})
from judgegym.judges.config.extras import install_command
from judgegym_trainers import art, openrlhf, slime, trl, verl
trl.judge_reward("http://127.0.0.1:1")
art.judge_group("http://127.0.0.1:1")
openrlhf.reward_function("http://127.0.0.1:1", on_failure="score")
loaded = {name.partition(".")[0] for name in set(sys.modules) - before} - {"art", "openai"}
owners = {package for module, packages in importlib.metadata.packages_distributions().items()
          if module in loaded for package in packages}
needed, todo = set(), {"aiohttp", "orjson"}
while todo:
    needed |= (now := {todo.pop()})
    for line in importlib.metadata.requires(*now) or ():
        if "extra ==" not in line:
            name = re.match(r"[A-Za-z0-9._-]+", line)[0].lower()
            todo |= {name} - needed if name in {owner.lower() for owner in owners} else set()
print(json.dumps(sorted(owner.lower() for owner in owners if owner.lower() not in needed | {"judgegym"})))
"""


@pytest.mark.slow
def test_beside_a_server_the_shims_import_two_packages() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "[]"


def modules_of_targets() -> dict[str, str]:
    """Every module of the room that belongs to a target, with its target."""
    found = {}
    for path in sorted(ROOM.rglob("*.py")):
        place = path.relative_to(ROOM).with_suffix("").parts
        names = place[:-1] if place[-1] == "__init__" else place
        if names and names[0] not in SHARED and not NOT_IMPORTED & {*names}:
            found[".".join(("judgegym_trainers", *names))] = names[0]
    return found


@pytest.mark.slow
def test_without_the_trainers_each_module_asks_for_its_own_alone_and_says_how_to_install_it() -> (
    None
):
    modules = modules_of_targets()
    trainers = {name for extra in TRAINERS for name in EXTRAS[extra]} - {"openai"} | {"rllm"}
    arguments = [json.dumps(sorted(trainers)), json.dumps([*modules])]
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED, *arguments], capture_output=True, text=True, check=True
    )
    found = json.loads(ended.stdout)
    assert {*found} == {*modules} and {"art", "trl", "verl"} <= {*modules.values()}
    for module, (said, asked) in found.items():
        target = modules[module]
        extra = EXTRA_OF.get(target, target)
        assert {*asked} <= (
            WITHOUT_EXTRA[target] if target in WITHOUT_EXTRA else {*EXTRAS[extra]}
        ), module
        if said and target == "rllm":
            assert said.startswith("ImportError: rllm ")
            assert said.endswith(" git+https://github.com/rllm-org/rllm")
        elif said:
            assert said.startswith("MissingExtraError: ") and install_command(extra) in said, (
                module,
                said,
            )


def test_the_face_and_the_room_of_integrations_import_no_package() -> None:
    code = "import sys; before = {*sys.modules}; import judgegym, judgegym_trainers\n"
    code += (
        "print(*{name.partition('.')[0] for name in {*sys.modules} - before} - "
        "{*sys.stdlib_module_names})"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {*ended.stdout.split()} == {"judgegym", "judgegym_trainers"}


TRL = """
import asyncio
from judgegym_trainers.trl import judge_reward
reward = judge_reward({url!r})
print(asyncio.run(reward(["Q"], ["answer"])), asyncio.run(reward(["Q"], ["answer"])))
"""
VERL = """
import asyncio
from judgegym_trainers.verl import compute_score, compute_score_sync
given = dict(url={url!r}, on_failure="score")
one = asyncio.run(compute_score("d", "answer", "", {{"question": "Q"}}, **given))
print(one["score"], compute_score_sync("d", "answer", "", {{"question": "Q"}}, **given)["score"])
"""
IN_PROCESS = """
import asyncio
from judgegym_trainers.trl import judge_reward
reward = judge_reward(judge={{"judge": "rubric", "judge_base_url": {endpoint!r}, "judge_model_name": "m"}})
print(asyncio.run(reward(["Q"], ["answer"])))
"""

LEFT = """
import asyncio
from judgegym.judges.core.event_loop import BACKGROUND
BACKGROUND.submit(asyncio.sleep(600))  # work that nobody waits for, as after an error beside it
BACKGROUND.run(asyncio.sleep(0))
print("end")
"""
FORKED = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python's own word on forks, from 3.12 on
from judgegym_trainers.verl import compute_score_sync
from judgegym.llm.errors import SettingsError
def score():
    return compute_score_sync("d", "answer", "", {{"question": "Q"}}, url={url!r}, on_failure="score")["score"]
score()
if os.fork() == 0:
    try:
        score()
    except SettingsError as error:
        os.write(1, str(error)[:11].encode())
    os._exit(0)
os.wait()
print(score())
"""


@pytest.mark.slow
async def test_scripts_that_close_nothing_end_without_a_word() -> None:
    scripts = {
        TRL: "[0.75] [0.75]",
        VERL: "0.75 0.75",
        IN_PROCESS: "[0.75]",
        LEFT: "end",
        FORKED: "judges were0.75",
    }
    async with running() as server:
        for script, printed in scripts.items():
            code = script.format(url=server.url, endpoint=server.judge.base_url)
            started = await asyncio.create_subprocess_exec(
                sys.executable, "-W", "default", "-c", code, stdout=-1, stderr=-1
            )
            out, err = await asyncio.wait_for(started.communicate(), 60)
            assert (out.decode().strip(), err.decode()) == (printed, "")
