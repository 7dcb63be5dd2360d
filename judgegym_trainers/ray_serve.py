"""The reward server on Ray Serve: the ASGI application in replicas that scale with the queue.

    pip install 'judgegym[ray]'
    serve run judgegym_trainers.ray_serve:app config=reward_server_rubric

Guarantees: a replica that Ray stops (fewer replicas, another version, a deleted application) takes
no new requests and finishes those that it has, within `drain_timeout`, by default more than a
request's deadline. An unreachable judge is no fault of a replica, and no replica is restarted for
it: `/readyz` reports it. Wrong arguments are one line of `serve`, before anything starts.

Each replica has its own core: identical judgments in flight are shared within a replica, finished
ones through the judgment cache. Cohorts (`group_size`), budgets and monitors need a single replica.

Source: ray 2.60 (`serve/api.py`, `serve/scripts.py`, `serve/_private/replica.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON
from judgegym.server.asgi import RewardServer

_TARGET_ONGOING = 256
"""Requests in flight in a replica before Ray starts another; they wait for judges, not the CPU."""
_MAX_REPLICAS = 8
_RAY_SETTINGS = {
    "host": "http_options of Ray Serve",
    "port": "http_options of Ray Serve",
    "workers": "min_replicas, max_replicas",
}
"""Reward-server settings without effect in a replica, and the settings that replace them."""


def app(arguments: Mapping[str, JSON]) -> Any:
    """Make the Ray Serve application.

    Args:
        arguments: settings of `python -m judgegym.server` by name, such as `config`; and
            `min_replicas`, `max_replicas`.

    Raises:
        SettingsError: a setting is wrong.
    """
    import click  # late: Ray brings it

    class ArgumentError(SettingsError, click.ClickException):
        """An argument of the application is wrong; `serve` shows it without a traceback."""

    try:
        return _make_application(dict(arguments))
    except SettingsError as error:
        raise ArgumentError(str(error)) from None


def _make_application(arguments: dict[str, JSON]) -> Any:
    """Make the application of these arguments.

    Raises:
        SettingsError: one is wrong.
    """
    misplaced = next((name for name in _RAY_SETTINGS if name in arguments), None)
    if misplaced is not None:
        raise SettingsError(f"{misplaced}: Ray Serve sets it; expected {_RAY_SETTINGS[misplaced]}")
    min_replicas = _take_count(arguments, "min_replicas")
    max_replicas = _take_count(arguments, "max_replicas")
    reward_server = RewardServer(**arguments)
    settings = reward_server.load().settings
    needs_one = settings.needs_one_process() is not None  # reports errors before any replica starts
    if min_replicas is None:
        min_replicas = 1
    if max_replicas is None:
        usual_limit = _MAX_REPLICAS
        if needs_one:
            usual_limit = 1
        max_replicas = max(min_replicas, usual_limit)
    if not 0 <= min_replicas <= max_replicas or max_replicas == 0:
        raise SettingsError(
            f"min_replicas, max_replicas: {min_replicas} to {max_replicas} replicas; expected the "
            "lower number first"
        )
    settings.check_processes(max_replicas, "replica", "max_replicas")
    from ray import serve  # late: the extra `ray`

    deployment = serve.deployment(
        serve.ingress(reward_server)(_Ingress),
        name="RewardServer",
        # All members of a cohort wait at the same time: a request that Ray holds back would be
        # missing.
        max_ongoing_requests=2 * settings.max_pending if needs_one else 4 * _TARGET_ONGOING,
        autoscaling_config={
            "min_replicas": min_replicas,
            "max_replicas": max_replicas,
            "target_ongoing_requests": _TARGET_ONGOING,
        },
        graceful_shutdown_timeout_s=settings.drain_s,  # Ray's default of 20 s is too short
    )
    return deployment.bind()


def _take_count(arguments: dict[str, JSON], name: str) -> int | None:
    """Take a number out of the arguments; return `None` if it is missing.

    Raises:
        SettingsError: it is none.
    """
    value = arguments.pop(name, None)
    try:
        if value is None:
            return None
        return int(str(value))
    except ValueError:
        raise SettingsError(f"{name}: expected a whole number, found {value!r}") from None


class _Ingress:
    """A replica."""
