"""A Ray cluster of one machine until its standard input ends. Argument: the port of Ray Serve's HTTP proxy.

It prints its address when it is there. No cluster of its own is started by `serve run --address`.
"""

import sys

import ray
from ray import serve

started = ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
print("address", started.address_info["gcs_address"], flush=True)
sys.stdin.read()
ray.shutdown()
