"""Asks `/compare` with NeMo Gym's `GenRMStrategy`, and reads the whole answer with the models of its GenRM server.

Arguments: the reward server's host and port, the texts of the responses as JSON.
"""

import asyncio
import json
import sys

from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import (
    GlobalAIOHTTPAsyncClientConfig,
    ServerClient,
    set_global_aiohttp_client,
)
from omegaconf import OmegaConf
from resources_servers.genrm_compare.app import GenRMCompareRequest, GenRMCompareResponse
from resources_servers.genrm_compare.comparison_strategies import GenRMStrategy, GenRMStrategyConfig

host, port, texts = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
HISTORY = [{"role": "user", "content": "What is 2 + 2?"}]
PRINCIPLE = "Be brief."


def response(text):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "id": "r1",
        "output": [{"id": "m1", "type": "message", "role": "assistant", "content": content}],
    }


async def main():
    config = OmegaConf.create(
        {"genrm_compare": {"resources_servers": {"judge": {"host": host, "port": port}}}}
    )
    client = ServerClient(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=config
    )
    session = set_global_aiohttp_client(cfg=GlobalAIOHTTPAsyncClientConfig())
    responses = [response(text) for text in texts]
    strategy = GenRMStrategy(GenRMStrategyConfig())
    rewards, metrics = await strategy.compare(HISTORY, responses, client, PRINCIPLE)
    body = GenRMCompareRequest(
        conversation_history=HISTORY, response_objs=responses, principle=PRINCIPLE
    )
    answer = await client.post(server_name="genrm_compare", url_path="/compare", json=body)
    whole = GenRMCompareResponse.model_validate(await answer.json())
    await session.close()
    print(json.dumps({"rewards": rewards, "metrics": metrics, "whole": whole.model_dump()}))


asyncio.run(main())
