"""The reward server on Ray Serve: the same routes, with replicas that scale with the queue.

    pip install 'judgegym[ray]'
    serve run judges.server.ray_app:app config=configs/reward_server_rubric.yaml

Each replica has its own core: equal judgments in flight are shared within a replica, finished ones
through the judgment cache.
"""

from __future__ import annotations

from typing import Any

from judges.config.sources import load
from judges.server.presets import with_preset
from judges.server.settings import RewardServerSettings

_TARGET_ONGOING = 256
"""Requests in flight in a replica before Ray starts another: they wait for judges, not for the processor."""
_MOST_REPLICAS = 8
_OF_ONE_HOP = frozenset({"connection", "content-length", "date", "host", "server", "transfer-encoding"})


def app(arguments: dict[str, str]) -> Any:
    """The Ray Serve application.

    Args:
        arguments: settings of `python -m judges.server` by name, such as `config`; and `max_replicas`.

    Raises:
        SettingsError: a setting is wrong.
    """
    import aiohttp
    from ray import serve  # late: the extra `ray`

    from judges.server.command import service_of
    from judges.server.http.listening import listening

    most = int(arguments.pop("max_replicas", _MOST_REPLICAS))
    argv = [f"--{name}={value}" for name, value in arguments.items()]
    load(
        RewardServerSettings, argv, prog="serve run", reshape=with_preset
    ).settings.judges()  # report errors before any replica starts

    @serve.deployment(
        max_ongoing_requests=4 * _TARGET_ONGOING,
        autoscaling_config={"min_replicas": 1, "max_replicas": most, "target_ongoing_requests": _TARGET_ONGOING},
    )
    class RewardServer:
        """One replica: the application on a free loopback port, behind Ray's proxy."""

        async def _open(self) -> None:
            loaded = load(RewardServerSettings, argv, prog="serve run", reshape=with_preset)
            self._service = service_of(loaded)
            service = await self._service.__aenter__()
            drain_s = service.settings.drain_timeout
            self._listening = listening(service, "127.0.0.1", 0, shutdown_timeout=drain_s)
            _, port = await self._listening.__aenter__()
            self._url = f"http://127.0.0.1:{port}"
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

        async def __call__(self, request: Any) -> Any:
            from starlette.responses import Response

            if not hasattr(self, "_opening"):
                import asyncio

                self._opening = asyncio.ensure_future(self._open())
            await self._opening
            kept = {name: value for name, value in request.headers.items() if name not in _OF_ONE_HOP}
            async with self._session.request(
                request.method, self._url + request.url.path, data=await request.body(), headers=kept
            ) as answer:
                headers = {name: value for name, value in answer.headers.items() if name.lower() not in _OF_ONE_HOP}
                return Response(await answer.read(), status_code=answer.status, headers=headers)

    return RewardServer.bind()  # type: ignore[attr-defined]  # the decorator's
