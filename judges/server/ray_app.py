"""The reward server on Ray Serve: the ASGI application in replicas whose number follows the queue.

    pip install 'judgegym[ray]'
    serve run judges.server.ray_app:app config=reward_server_rubric

Each replica has its own core: equal judgments in flight are shared within a replica, finished ones
through the judgment cache.
"""

from __future__ import annotations

from typing import Any

from judges.server.asgi import RewardServer

_TARGET_ONGOING = 256
"""Requests in flight in a replica before Ray starts another: they wait for judges, not for the processor."""
_MOST_REPLICAS = 8


def app(arguments: dict[str, str]) -> Any:
    """The Ray Serve application.

    Args:
        arguments: settings of `python -m judges.server` by name, such as `config`; and `max_replicas`.

    Raises:
        SettingsError: a setting is wrong.
    """
    from ray import serve  # late: the extra `ray`

    settings = dict(arguments)
    most = int(settings.pop("max_replicas", _MOST_REPLICAS))
    reward_server = RewardServer(**settings)
    reward_server.load().settings.judges()  # report errors before any replica starts
    deployed = serve.deployment(
        serve.ingress(reward_server)(),
        name="RewardServer",
        max_ongoing_requests=4 * _TARGET_ONGOING,
        autoscaling_config={"min_replicas": 1, "max_replicas": most, "target_ongoing_requests": _TARGET_ONGOING},
    )
    return deployed.bind()
