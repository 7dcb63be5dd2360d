"""The routes: which handler answers a method and a path, and the token that a path may begin with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from judgegym.server.errors import RequestError
from judgegym.server.protocols.adapters import ADAPTERS
from judgegym.server.service import handlers
from judgegym.server.service.bodies import PREFIX, without_token
from judgegym.server.service.messages import ServerRequest, ServerResponse
from judgegym.server.service.opened import Service

Handler = Callable[[ServerRequest], Awaitable[ServerResponse]]
Methods = Mapping[str, Handler]


class Route(NamedTuple):
    """Where a path leads.

    Attributes:
        methods: the handlers by method; none for an unknown path.
        path: the path without percent-encoding and without its token.
        token: the token in the path.
    """

    methods: Methods
    path: str
    token: str | None = None

    def handler(self, method: str) -> Handler:
        """The handler of a method.

        Raises:
            RequestError: the path is unknown, or takes other methods.
        """
        if not self.methods:
            raise RequestError(404, "http_error", "Not Found")
        handler = self.methods.get(method)
        if handler is None:
            allowed = {"Allow": ",".join(sorted(self.methods))}
            raise RequestError(405, "http_error", "Method Not Allowed", headers=allowed)
        return handler


class Routes:
    """All routes of a service; paths of judges may begin with `/token/TOKEN`."""

    def __init__(self, service: Service) -> None:
        """Make the handlers."""
        self._of_judges: dict[str, Methods] = {}
        for mount in service.mounts:
            prefix = f"/{mount}" if mount else ""
            for adapter in ADAPTERS:
                self._of_judges[prefix + adapter.path] = {"POST": handlers.scoring(service, mount, adapter)}
            self._of_judges[f"{prefix}/seed_session"] = {"POST": handlers.seed_session(service)}
            self._of_judges[f"{prefix}/aggregate_metrics"] = {"POST": handlers.aggregated(service)}
            self._of_judges[f"{prefix}/reverify_mode"] = _get(handlers.reverify_mode(service, mount))
        others = {
            "/": _get(handlers.shown_page),
            "/healthz": _get(handlers.healthy),
            "/readyz": _get(handlers.ready(service)),
            "/metrics": _get(handlers.metrics(service)),
            "/openapi.json": _get(handlers.document(service)),
            "/v1/recent": _get(handlers.recent(service)),
        }
        self._places = {path: Route(methods, path) for path, methods in (self._of_judges | others).items()}

    def place(self, path: str) -> Route:
        """Where a percent-encoded path leads."""
        known = self._places.get(path or "/")
        if known is not None:
            return known
        parts = [unquote(part).replace("/", "%2F") for part in path.split("/")]  # an encoded slash ends no token
        plain = "/".join(parts)
        _, *beginning = parts[:3]
        if len(parts) > 3 and beginning[0] == PREFIX:
            methods = self._of_judges.get("/" + "/".join(parts[3:]))
            if methods is not None:
                return Route(methods, without_token(plain), beginning[1].replace("%2F", "/"))
        return self._places.get(plain) or Route({}, without_token(plain))


def _get(handler: Handler) -> Methods:
    return {"GET": handler, "HEAD": handler}
