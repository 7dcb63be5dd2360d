"""The reward server on Ray Serve: the ASGI application in replicas whose number follows the queue.

    pip install 'judgegym[ray]'
    serve run judgegym_trainers.ray_serve:app config=reward_server_rubric

Guarantees: a replica that Ray stops (fewer replicas, another version, a deleted application) takes
no new requests
and answers those that it has: it has `drain_timeout` for that, by default more than the deadline of
a request. A judge
that is away is no fault of a replica, and none is restarted for it: `/readyz` says so. Arguments
that cannot work are one line of `serve`, before anything starts.

Each replica has its own core: equal judgments in flight are shared within a replica, finished ones
through the judgment cache. Cohorts (`group_size`), budgets and monitors need a single replica.

Source: ray 2.60 (`serve/api.py`, `serve/scripts.py`, `serve/_private/replica.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON
from judgegym.server.asgi import RewardServer

_TARGET_ONGOING = 256
"""Requests in flight in a replica before Ray starts another: they wait for judges, not for the processor."""
_MOST_REPLICAS = 8
_OF_RAY = {
    "host": "http_options of Ray Serve",
    "port": "http_options of Ray Serve",
    "workers": "min_replicas, max_replicas",
}
"""Settings of the reward server that have no effect in a replica, and what has."""


def app(arguments: Mapping[str, JSON]) -> Any:
    """The Ray Serve application.

    Args:
        arguments: settings of `python -m judgegym.server` by name, such as `config`; and
            `min_replicas`,
        `max_replicas`.

    Raises:
        SettingsError: a setting is wrong.
    """
    import click  # late: Ray brings it

    class ArgumentError(SettingsError, click.ClickException):
        """An argument of the application is wrong; the command `serve` shows it without a traceback."""

    try:
        return _application(dict(arguments))
    except SettingsError as error:
        raise ArgumentError(str(error)) from None


def _application(named: dict[str, JSON]) -> Any:
    """The application of these arguments.

    Raises:
        SettingsError: one is wrong.
    """
    misplaced = next((name for name in _OF_RAY if name in named), None)
    if misplaced is not None:
        raise SettingsError(f"{misplaced}: Ray Serve has it; expected {_OF_RAY[misplaced]}")
    fewest = _count(named, "min_replicas")
    most = _count(named, "max_replicas")
    reward_server = RewardServer(**named)
    settings = reward_server.load().settings
    needs_one = settings.needs_one_process() is not None  # reports errors before any replica starts
    fewest = 1 if fewest is None else fewest
    most = max(fewest, 1 if needs_one else _MOST_REPLICAS) if most is None else most
    if not 0 <= fewest <= most or most == 0:
        raise SettingsError(
            f"min_replicas, max_replicas: {fewest} to {most} replicas; expected the lower number "
            "first"
        )
    settings.check_processes(most, "replica", "max_replicas")
    from ray import serve  # late: the extra `ray`

    deployed = serve.deployment(
        serve.ingress(reward_server)(_Ingress),
        name="RewardServer",
        # All members of a cohort wait at the same time: its cohort would miss one that Ray held
        # back.
        max_ongoing_requests=2 * settings.max_pending if needs_one else 4 * _TARGET_ONGOING,
        autoscaling_config={
            "min_replicas": fewest,
            "max_replicas": most,
            "target_ongoing_requests": _TARGET_ONGOING,
        },
        graceful_shutdown_timeout_s=settings.drain_s,  # Ray's own 20 s are less than a judgment may take
    )
    return deployed.bind()


def _count(named: dict[str, JSON], name: str) -> int | None:
    """A number among the arguments, which is taken out of them; `None` if it is not there.

    Raises:
        SettingsError: it is none.
    """
    given = named.pop(name, None)
    try:
        return None if given is None else int(str(given))
    except ValueError:
        raise SettingsError(f"{name}: {given!r} is no whole number") from None


class _Ingress:
    """A replica."""
