"""Collects rollouts with NeMo Gym's `SimpleAgent` and `RolloutCollectionHelper`, its policy scripted.

Arguments: the reward server's host and port, a directory, the rows as JSON, the number of rollouts
of each, and the type of the environment server between collector and agent, which NeMo Gym has from
0.7 on. The policy answers with the `says` of the row's metadata: text, in which `{n}` is the
answer's number, a list of output items, or an object of fields of a response whose text is `half
of`.
"""

import asyncio
import itertools
import json
import os
import socket
import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.global_config import NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME
from nemo_gym.rollout_collection import RolloutCollectionConfig, RolloutCollectionHelper
from nemo_gym.server_utils import (
    GlobalAIOHTTPAsyncClientConfig,
    ServerClient,
    set_global_aiohttp_client,
)
from omegaconf import OmegaConf
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig

host, port, directory, rows, repeats = (
    sys.argv[1],
    int(sys.argv[2]),
    Path(sys.argv[3]),
    sys.argv[4],
    int(sys.argv[5]),
)
kind = sys.argv[6]
policy = FastAPI()
numbers = itertools.count()


def message(text):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


@policy.post("/v1/responses")
@policy.post("/ng-rollout/{rollout}/v1/responses")  # within a session
async def answer(request: Request):
    body = await request.json()
    says = json.loads(body["metadata"]["says"])
    fields, says = (says, "half of") if isinstance(says, dict) else ({}, says)
    output = [message(says.replace("{n}", str(next(numbers))))] if isinstance(says, str) else says
    if any(item.get("type") == "function_call_output" for item in body["input"]):
        output = [message("good")]
    return {
        "id": "r1",
        "created_at": 1,
        "model": "policy",
        "object": "response",
        "output": output,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        **fields,
    }


def listening():
    bound = socket.create_server(("127.0.0.1", 0))
    return bound, bound.getsockname()[1]


def environment_server(port, client):
    """The application of the environment server; none in NeMo Gym 0.4."""
    common = {
        "host": "127.0.0.1",
        "port": port,
        "entrypoint": "app.py",
        "name": "environment",
        "agent_server": {"type": "responses_api_agents", "name": "agent"},
    }
    try:
        from environment_servers.legacy_agent.app import (
            LegacyAgentEnvironmentServer,
            LegacyAgentEnvironmentServerConfig,
        )
        from environment_servers.single_agent_turn_legacy.app import (
            SingleAgentTurnEnvironmentServerConfig,
            SingleAgentTurnLegacyEnvironmentServer,
        )
    except ImportError:
        return FastAPI()
    if kind == "legacy_agent":
        config = LegacyAgentEnvironmentServerConfig(**common)
        return LegacyAgentEnvironmentServer(config=config, server_client=client).setup_webserver()
    config = SingleAgentTurnEnvironmentServerConfig(
        **common,
        resources_server={"type": "resources_servers", "name": "judge"},
        resources_tool_transports=["direct_http"],
        cleanup_timeout_seconds=60,
    )
    return SingleAgentTurnLegacyEnvironmentServer(
        config=config, server_client=client
    ).setup_webserver()


async def main():
    of_policy, policy_port = listening()
    of_agent, agent_port = listening()
    of_environment, environment_port = listening()
    config = OmegaConf.create(
        {
            "judge": {"resources_servers": {"judge": {"host": host, "port": port}}},
            "policy": {
                "responses_api_models": {"policy": {"host": "127.0.0.1", "port": policy_port}}
            },
            "agent": {
                "responses_api_agents": {"simple_agent": {"host": "127.0.0.1", "port": agent_port}}
            },
            "environment": {
                "environment_servers": {
                    kind: {
                        "host": "127.0.0.1",
                        "port": environment_port,
                        "agent_server": {"type": "responses_api_agents", "name": "agent"},
                    }
                }
            },
        }
    )
    os.environ[NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME] = OmegaConf.to_yaml(config)
    client = ServerClient(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=config
    )
    set_global_aiohttp_client(cfg=GlobalAIOHTTPAsyncClientConfig())
    agent = SimpleAgent(
        config=SimpleAgentConfig(
            host="127.0.0.1",
            port=agent_port,
            entrypoint="app.py",
            name="agent",
            resources_server={"type": "resources_servers", "name": "judge"},
            model_server={"type": "responses_api_models", "name": "policy"},
            max_steps=3,
        ),
        server_client=client,
    )
    servers = [
        (uvicorn.Server(uvicorn.Config(app, log_level="error")), bound)
        for app, bound in (
            (policy, of_policy),
            (agent.setup_webserver(), of_agent),
            (environment_server(environment_port, client), of_environment),
        )
    ]
    running = [asyncio.create_task(server.serve(sockets=[bound])) for server, bound in servers]
    (directory / "rows.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in json.loads(rows))
    )

    class Helper(RolloutCollectionHelper):
        def setup_server_client(self, head_server_config=None):
            return client

    await Helper().run_from_config(
        RolloutCollectionConfig(
            agent_name="agent",
            input_jsonl_fpath=str(directory / "rows.jsonl"),
            output_jsonl_fpath=str(directory / "rollouts.jsonl"),
            num_repeats=repeats,
            upload_rollouts_to_wandb=False,
        )
    )
    for server, _ in servers:
        server.should_exit = True
    await asyncio.gather(*running)


asyncio.run(main())
