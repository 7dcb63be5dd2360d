"""Builds the spawned server as NeMo Gym does, without its processes. Argument: its blocks of settings, as JSON.

Each block is that of the server in NeMo Gym's configuration. The result has, for each, the line
that it ended with, or the row that `/verify` gave. The judge of the last ones is a model server of
NeMo Gym, before the endpoint that the second argument names.
"""

import asyncio
import json
import os
import socket
import sys

import httpx
import uvicorn
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.global_config import (
    NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME,
    NEMO_GYM_CONFIG_PATH_ENV_VAR_NAME,
)
from nemo_gym.server_utils import (
    GlobalAIOHTTPAsyncClientConfig,
    ServerClient,
    set_global_aiohttp_client,
)
from omegaconf import OmegaConf

blocks, endpoint, row = json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])


def listening():
    bound = socket.create_server(("127.0.0.1", 0))
    return bound, bound.getsockname()[1]


of_model, model_port = listening()
model = {
    "host": "127.0.0.1",
    "port": model_port,
    "openai_base_url": endpoint,
    "openai_api_key": "none",
}
model |= {"entrypoint": "app.py", "openai_model": "the-judge"}
config = {"judge_model": {"responses_api_models": {"openai_model": model}}}
config |= {
    f"server{number}": {"resources_servers": {"judgegym": block}}
    for number, block in enumerate(blocks)
}
config_dict = OmegaConf.create(config)
os.environ[NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME] = OmegaConf.to_yaml(config_dict)
client = ServerClient(
    head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=config_dict
)

from responses_api_models.openai_model.app import SimpleModelServer  # noqa: E402

from judgegym_trainers.nemo_gym.resources_server import JudgeGymResourcesServer  # noqa: E402


async def verified(server):
    app = server.setup_webserver()
    server.setup_liveness(app)
    server.setup_exception_middleware(app)
    bound, port = listening()
    web = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    running = asyncio.create_task(web.serve(sockets=[bound]))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        answer = await client.post("/verify", json=row, timeout=60)
        page = await client.get("/")
    web.should_exit = True
    await running
    return {"code": answer.status_code, "row": answer.json(), "page": page.status_code}


def built(cls, name):
    os.environ[NEMO_GYM_CONFIG_PATH_ENV_VAR_NAME] = name
    return cls(config=cls.load_config_from_global_config(), server_client=client)


async def main():
    session = set_global_aiohttp_client(cfg=GlobalAIOHTTPAsyncClientConfig())
    web = uvicorn.Server(
        uvicorn.Config(built(SimpleModelServer, "judge_model").setup_webserver(), log_level="error")
    )
    running = asyncio.create_task(web.serve(sockets=[of_model]))
    found = []
    for number in range(len(blocks)):
        try:
            found.append(await verified(built(JudgeGymResourcesServer, f"server{number}")))
        except SystemExit as ended:
            found.append({"ended": str(ended)})
    web.should_exit = True
    await running
    await session.close()
    print(json.dumps(found))


asyncio.run(main())
