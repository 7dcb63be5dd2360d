"""What a trainer's environment needs beside a reward server, and what a script leaves behind when it ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from tests.judges.server.running import running

BESIDE_A_SERVER = {"aiohttp", "orjson"}
"""With what they need themselves."""

IMPORTS = """
import importlib.metadata, json, re, sys
before = set(sys.modules)
from judgegym.integrations import slime, trl, verl
trl.judge_reward("http://127.0.0.1:1")
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
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


def test_beside_a_server_the_shims_import_two_packages() -> None:
    ended = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


TRL = """
import asyncio
from judgegym.integrations.trl import judge_reward
reward = judge_reward({url!r})
print(asyncio.run(reward(["Q"], ["answer"])), asyncio.run(reward(["Q"], ["answer"])))
"""
VERL = """
import asyncio
from judgegym.integrations.verl import compute_score, compute_score_sync
one = asyncio.run(compute_score("d", "answer", "", {{"question": "Q"}}, url={url!r}))
print(one["score"], compute_score_sync("d", "answer", "", {{"question": "Q"}}, url={url!r})["score"])
"""
IN_PROCESS = """
import asyncio
from judgegym.integrations.trl import judge_reward
reward = judge_reward(judge={{"judge": "rubric", "judge_base_url": {endpoint!r}, "judge_model_name": "m"}})
print(asyncio.run(reward(["Q"], ["answer"])))
"""

FORKED = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python's own word on forks, from 3.12 on
from judgegym.integrations.verl import compute_score_sync
from judges.llm.errors import SettingsError
def score():
    return compute_score_sync("d", "answer", "", {{"question": "Q"}}, url={url!r})["score"]
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


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        (TRL, "[0.75] [0.75]"),
        (VERL, "0.75 0.75"),
        (IN_PROCESS, "[0.75]"),
        (FORKED, "judges were0.75"),
    ],
)
async def test_a_script_that_closes_nothing_ends_without_a_word(script: str, printed: str) -> None:
    async with running() as server:
        code = script.format(url=server.url, endpoint=server.judge.base_url)
        started = await asyncio.create_subprocess_exec(
            sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", code, stdout=-1, stderr=-1
        )
        out, err = await asyncio.wait_for(started.communicate(), 60)
    assert (out.decode().strip(), err.decode()) == (printed, "")
