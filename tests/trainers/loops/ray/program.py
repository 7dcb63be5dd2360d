"""Runs the reward server on Ray Serve until its standard input ends. Arguments: a port, the settings as JSON.

It prints the server's URL when it answers.
"""

import json
import sys

import ray
from ray import serve

from judgegym_trainers.ray_serve import app

port, settings = int(sys.argv[1]), json.loads(sys.argv[2])
ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": port})
serve.run(app(settings), route_prefix="/rewards")
print("answers at", f"http://127.0.0.1:{port}/rewards", flush=True)
sys.stdin.read()
serve.shutdown()
ray.shutdown()
