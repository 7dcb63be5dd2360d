"""What the server process needs of the system: a listening socket, enough open files, and reasons to end."""

import asyncio
import contextlib
import os
import resource
import signal
import socket
import threading

BACKLOG = 4096
"""Connections that may wait to be accepted: a burst of clients must not be turned away."""

_OPEN_FILES = 65_536


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on the first address of the host; port 0 lets the system choose. Raises `OSError`."""
    family, *_, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server((str(address[0]), port), family=family, backlog=BACKLOG)


def url_of(listener: socket.socket) -> str:
    """The base URL that a client of this socket uses."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def allow_many_connections() -> None:
    """Raise the limit of open files as far as the system lets: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def stop_on_signals(stopped: "asyncio.Future[int]") -> None:
    """Let SIGINT and SIGTERM set the exit code of the process, 130 and 143."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _stop, stopped, 128 + number)


def stop_at_end_of_input(stopped: "asyncio.Future[int]") -> None:
    """Let the end of standard input stop the process with code 0: a parent that dies closes its end of the pipe."""
    loop = asyncio.get_running_loop()

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 65_536):
                pass
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(_stop, stopped, 0)

    threading.Thread(target=wait, name="end-of-input", daemon=True).start()


def _stop(stopped: "asyncio.Future[int]", code: int) -> None:
    if not stopped.done():
        stopped.set_result(code)
