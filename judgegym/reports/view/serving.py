"""Listens on this machine until a signal."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import tempfile
import webbrowser
from pathlib import Path

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from judgegym.engine.terminal.output import say
from judgegym.llm.errors import SettingsError
from judgegym.reports.results.folder import paths_in
from judgegym.reports.view.app import app_of
from judgegym.reports.view.reports import Reports

_PATIENCE_S = 0.2
"""How long responses that are being sent may take to their end."""


async def serve(folder: Path, host: str, port: int, *, opens: bool) -> int:
    """Serve the page over a folder; return the exit code of the signal that stopped it.

    Raises:
        RunDirectoryError: there is no such folder.
        SettingsError: the port cannot be had.
    """
    paths_in(folder)
    stopped: asyncio.Queue[int] = asyncio.Queue()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.put_nowait, number)
    listener = _listener(host, port)
    with tempfile.TemporaryDirectory(prefix="judgegym-view-", ignore_cleanup_errors=True) as made:
        application = app_of(folder, Reports(Path(made)))
        runner = web.AppRunner(application, access_log=None, logger=_logger(), shutdown_timeout=_PATIENCE_S)
        await runner.setup()
        await web.SockSite(runner, listener).start()
        url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/"
        say(f"the runs in {folder} are at {url} (Ctrl-C stops)")
        sys.stdout.flush()
        if opens:
            webbrowser.open(url)
        try:
            return 128 + await stopped.get()
        finally:
            await runner.cleanup()


def _logger() -> logging.Logger:
    """The log of the server's own faults: a request that is no HTTP is answered with 400, and is none of them."""
    logger = logging.getLogger(__name__)
    logger.addFilter(lambda record: record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError))
    return logger


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"cannot listen at --host={host} --port={port}: {error.strerror}; --port=0 takes a free port"
        ) from error
    listener.setblocking(False)
    return listener
