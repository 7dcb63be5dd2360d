"""Runs a data set through `judgegym.ray.score` on a cluster of this machine.

Arguments: what is to happen, a folder, settings as JSON. What happens:
`score`: each batch format in turn. `kill`: one of two actors is killed once the judge has been
asked something. It prints what came of it as JSON, in its last line.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import ray

from judgegym.ray import score

what, folder, settings = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
rows = [
    {"id": n, "prompt": f"Question {n}", "response": f"{n % 5 + 1} points", "tags": ["a"]}
    for n in range(60)
]
ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
ray.data.DataContext.get_current().enable_progress_bars = False


def kill_one() -> None:
    """Kill an actor as soon as its file has something; the file's name has its process."""
    while not (begun := [path for path in folder.glob("*.jsonl") if path.stat().st_size]):
        time.sleep(0.02)
    os.kill(int(begun[0].name.split("-")[-2]), signal.SIGKILL)


def scored(**more: object) -> ray.data.Dataset:
    """The rows with their scores."""
    given = score.arguments(actors=2, batch_size=10, ledger=str(folder), **settings)
    return (
        ray.data.from_items(rows, override_num_blocks=4)
        .map_batches(score, **{**given, **more})
        .materialize()
    )


if what == "kill":
    killer = threading.Thread(target=kill_one)
    killer.start()
    found = scored()
    killer.join(60)
    result = {"rows": found.take_all(), "files": len(list(folder.glob("*.jsonl")))}
else:
    result = {}
    for kind in ("default", "pandas", "pyarrow"):
        found = scored(batch_format=kind)
        result[kind] = found.take_all()
    types = dict(zip(found.schema().names, map(str, found.schema().types), strict=True))
    result["types"] = types
ray.shutdown()
print(json.dumps(result, default=lambda value: value.tolist()))
