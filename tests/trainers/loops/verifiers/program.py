"""An env server over ZeroMQ: tasks are sent to it as data, as prime-rl's orchestrator does, which loads the taskset.

Prints the record of each episode.
"""

import asyncio
import json
import sys

import verifiers.v1 as vf
from verifiers.v1.configs.client import EvalClientConfig
from verifiers.v1.serve import EnvClient, EnvServer, env_config_data
from verifiers.v1.utils.loaders import load_taskset, resolve_env_config


async def main(policy: str, block: dict) -> list[dict]:
    config = resolve_env_config(
        env_config_data(resolve_env_config(block))
    )  # as it crosses the border of a process
    tasks = [
        task.data.model_dump(mode="json", exclude_none=True)
        for task in load_taskset(config.taskset)
    ]
    server = EnvServer(config, "tcp://127.0.0.1:0")
    serving = asyncio.create_task(server.run())
    client = EnvClient(server.address)
    try:
        await client.wait_for_server_startup(30)
        endpoint = EvalClientConfig(base_url=policy, api_key_var="HOME")
        runs = [client.run(endpoint, "policy", vf.SamplingConfig(), data) for data in tasks[:3]]
        return [
            json.loads(json.dumps(episode.to_record())) for episode in await asyncio.gather(*runs)
        ]
    finally:
        await client.close()
        serving.cancel()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))))
