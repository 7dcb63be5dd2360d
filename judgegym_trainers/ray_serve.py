"""The reward server on Ray Serve: the ASGI application in replicas whose number follows the queue.

    pip install 'judgegym[ray]'
    serve run judgegym_trainers.ray_serve:app config=reward_server_rubric

Guarantees: a replica that Ray stops (fewer replicas, another version, a deleted application) takes no new requests
and answers those that it has: it has `drain_timeout` for that, which is more than the deadline of a request. A judge
that is away is no fault of a replica, and none is restarted for it: `/readyz` says so. Arguments that cannot work are
one line of `serve`, before anything starts.

Each replica has its own core: equal judgments in flight are shared within a replica, finished ones
through the judgment cache. If judges gather single responses (`group_size`), one more replica keeps the cohorts of all,
and the others bring it their responses.

Source: ray 2.60 (`serve/api.py`, `serve/scripts.py`, `serve/_private/replica.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from judgegym.judges.core.tasks import JudgeTask, ResponseJudgment
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON
from judgegym.server.answers import OverloadError
from judgegym.server.asgi import RewardServer
from judgegym.server.cohorts.register import Cohorts, Connect
from judgegym.server.cohorts.shared import OwnerLostError, SharedCohorts
from judgegym.server.settings import RewardServerSettings, gathering

_TARGET_ONGOING = 256
"""Requests in flight in a replica before Ray starts another: they wait for judges, not for the processor."""
_MOST_REPLICAS = 8
_KEEPER = "RewardServerCohorts"
_OF_RAY = {
    "host": "http_options of Ray Serve",
    "port": "http_options of Ray Serve",
    "workers": "min_replicas, max_replicas",
}
"""Settings of the reward server that have no effect in a replica, and what has."""


def app(arguments: Mapping[str, JSON]) -> Any:
    """The Ray Serve application.

    Args:
        arguments: settings of `python -m judgegym.server` by name, such as `config`; and `min_replicas`,
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
    from ray import serve  # late: the extra `ray`

    misplaced = next((name for name in _OF_RAY if name in named), None)
    if misplaced is not None:
        raise SettingsError(f"{misplaced}: Ray Serve has it; expected {_OF_RAY[misplaced]}")
    fewest = _count(named, "min_replicas", 1)
    most = _count(named, "max_replicas", max(fewest, _MOST_REPLICAS))
    if not 0 <= fewest <= most or most == 0:
        raise SettingsError(f"min_replicas, max_replicas: {fewest} to {most} replicas; expected the lower number first")
    reward_server = _OnRay(**named)
    settings = reward_server.load().settings
    mounts = settings.mounted_judges()  # reports errors before any replica starts
    deployed = serve.deployment(
        serve.ingress(reward_server)(_Ingress),
        name="RewardServer",
        max_ongoing_requests=4 * _TARGET_ONGOING,
        autoscaling_config={"min_replicas": fewest, "max_replicas": most, "target_ongoing_requests": _TARGET_ONGOING},
        graceful_shutdown_timeout_s=settings.drain_timeout,  # Ray's own 20 s are less than a judgment may take
    )
    if not gathering(mounts):
        return deployed.bind()
    # All its members wait in it at the same time: one that Ray held back would be missed by its cohort.
    keeper = serve.deployment(
        _CohortOwner,
        name=_KEEPER,
        num_replicas=1,
        max_ongoing_requests=2 * settings.max_pending,
        graceful_shutdown_timeout_s=settings.drain_timeout,
    )
    return deployed.bind(keeper.bind(named))


def _count(named: dict[str, JSON], name: str, default: int) -> int:
    """A number among the arguments, which is taken out of them.

    Raises:
        SettingsError: it is none.
    """
    given = named.pop(name, default)
    try:
        return int(str(given))
    except ValueError:
        raise SettingsError(f"{name}: {given!r} is no whole number") from None


class _OnRay(RewardServer):
    """The application in a replica: cohorts are in the replica that keeps them."""

    def connecting(self, settings: RewardServerSettings) -> Connect:
        """See `RewardServer`."""
        if not gathering(settings.mounted_judges()):
            return nullcontext

        @asynccontextmanager
        async def connected(own: Cohorts) -> AsyncIterator[Cohorts]:
            yield SharedCohorts(_KeeperOwner(), deadline_s=settings.deadline)

        return connected


class _Ingress:
    """A replica; what it depends on is named so that Ray starts it."""

    def __init__(self, *needed: object) -> None:
        """Nothing else is needed."""


class _CohortOwner:
    """The replica in which the cohorts of all replicas are."""

    def __init__(self, named: Mapping[str, JSON]) -> None:
        """Prepare; the judges are opened by the first response."""
        self._server = RewardServer(**named)

    async def join(self, mount: str, task: JudgeTask, spent_s: float) -> ResponseJudgment:
        """See `Cohorts`."""
        core = (await self._server.service()).core
        ((result,),) = await core.score(mount, [task], spent_s=spent_s, is_patient=True)
        return result


class _KeeperOwner:
    """The replica that keeps the cohorts, as the others see it."""

    def __init__(self) -> None:
        from ray import serve

        self._handle = serve.get_deployment_handle(_KEEPER, serve.get_replica_context().app_name)

    async def join(self, mount: str, task: JudgeTask, spent_s: float) -> ResponseJudgment:
        """See `Cohorts`.

        Raises:
            OwnerLostError: the replica has died before it answered, or there is none.
            OverloadError: too many judgments are pending there.
        """
        from ray.exceptions import RayActorError
        from ray.serve.exceptions import RayServeException

        asked = self._handle.join.remote(mount, task, spent_s)
        try:
            result: ResponseJudgment = await asked
        except asyncio.CancelledError:
            asked.cancel()  # who leaves a replica leaves the cohort
            raise
        except OverloadError as error:  # Ray's own error, which is one of these, too
            raise OverloadError from error
        except RayActorError as error:
            raise OwnerLostError(taken=True) from error
        except RayServeException as error:
            raise OwnerLostError(taken=False) from error
        return result
