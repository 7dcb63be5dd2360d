"""The reward server as a resources server that NeMo Gym spawns.

Guarantees: all routes are those of `judgegym judge-server --for nemo_gym`, answered by the same
code: `/verify`, `/seed_session`, `/close_session`, `/aggregate_metrics`, `/reverify_mode`,
`/compare`, `/v1/score` and the page. A failed judge is a row with `_ng_failure_class` and
`mask_sample`, and never a score; within a session of 0.7 it is an HTTP error, which ends one
episode. Settings that cannot work end the process at its start, with a one-line error.

Source: nemo-gym 0.4.0 and 0.7.0 (`base_resources_server.py`, `server_utils.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from judgegym.judges.config.extras import report_missing_extra
from judgegym.llm.errors import SettingsError
from judgegym.llm.urls import is_loopback
from judgegym.llm.wire import JSON
from judgegym.server.asgi import RewardServer

with report_missing_extra("nemo-gym"):
    from fastapi import FastAPI
    from nemo_gym.base_resources_server import (
        BaseResourcesServerConfig,
        BaseVerifyRequest,
        BaseVerifyResponse,
        SimpleResourcesServer,
    )
    from nemo_gym.config_types import ModelServerRef
    from nemo_gym.server_utils import get_server_url

_GYM_SETTINGS = ("host", "port", "workers")
"""Reward-server settings for which NeMo Gym's configuration has its own names."""


class JudgeGymServerConfig(BaseResourcesServerConfig):
    """The server's block in NeMo Gym's configuration.

    Attributes:
        reward_server: settings of `judgegym judge-server` by name. Settings that are left out, or
            null, come from the variables JUDGEGYM_…, from the YAML file that `config` names, and
            from the preset `for: nemo_gym`.
        judge_model_server: a model server of NeMo Gym as the judge, in place of `judge_base_url`.
    """

    reward_server: dict[str, Any] = Field(default_factory=dict)
    judge_model_server: ModelServerRef | None = None


class JudgeGymResourcesServer(SimpleResourcesServer):
    """The resources server; its application is the reward server's."""

    config: JudgeGymServerConfig

    def setup_webserver(self) -> FastAPI:
        """Return the application, which forwards all paths to the reward server.

        Its judges live as long as the process.

        Raises:
            SystemExit: a setting is wrong.
        """
        try:
            reward_server = _make_reward_server(self.config)
        except SettingsError as error:
            raise SystemExit(f"{self.config.name}: reward_server: {error}") from None
        app = FastAPI(lifespan=reward_server.lifespan, openapi_url=None)
        app.mount("/", reward_server)
        return app

    def setup_exception_middleware(self, app: FastAPI) -> None:
        """Add no middleware: the reward server responds to errors, and notices disconnects."""

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        """Not called: the reward server responds to `/verify`."""
        raise NotImplementedError


def _make_reward_server(config: JudgeGymServerConfig) -> RewardServer:
    """Make the application for these settings.

    Raises:
        SettingsError: a setting is wrong, or cannot work in a server that NeMo Gym starts.
    """
    server_settings = {
        name: value for name, value in config.reward_server.items() if value is not None
    }
    misplaced = next((name for name in server_settings if name in _GYM_SETTINGS), None)
    if misplaced is not None:
        expected = misplaced
        if misplaced == "workers":
            expected = "num_workers"
        raise SettingsError(
            f"{misplaced}: NeMo Gym serves it; expected {expected} beside entrypoint"
        )
    address = {"host": config.host, "port": config.port}
    server = RewardServer(
        **{
            "for": "nemo_gym",
            **server_settings,
            **_judge_settings(config, server_settings),
            **address,
        }
    )
    settings = server.load().settings
    if settings.tokens:
        raise SettingsError(
            "tokens: NeMo Gym's clients send none to a server that it spawns; use an external "
            "server"
        )
    if not settings.insecure and not is_loopback(f"http://{config.host}"):
        raise SettingsError(
            f"insecure: {config.host} is open to other machines, and NeMo Gym's clients send no "
            "token; expected true"
        )
    settings.check_processes(config.num_workers or 1, setting="num_workers")
    return server


def _judge_settings(
    config: JudgeGymServerConfig, server_settings: Mapping[str, JSON]
) -> Mapping[str, JSON]:
    """Return the judge's endpoint, if it is a model server of NeMo Gym.

    Raises:
        SettingsError: another endpoint is set as well.
    """
    if config.judge_model_server is None:
        return {}
    if "judge_base_url" in server_settings:
        raise SettingsError(
            "judge_base_url: judge_model_server names the judge already; expected one of the two"
        )
    name = config.judge_model_server.name
    return {
        "judge_base_url": get_server_url(name) + "/v1",
        "judge_model_name": server_settings.get("judge_model_name", name),
    }
