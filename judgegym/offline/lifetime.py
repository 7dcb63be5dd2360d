"""The server process and the system: the listening socket, the limit of open files, and when the process ends."""

import asyncio
import contextlib
import os
import resource
import signal
import socket
import threading

BACKLOG = 4096  # connections that may wait to be accepted: a burst of clients must not be turned away


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on the first address of the host; port 0 lets the system choose. Raises `OSError`."""
    family, *_, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server((str(address[0]), port), family=family, backlog=BACKLOG)


def url_of(listener: socket.socket) -> str:
    """The base URL that a client of this socket uses."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def allow_many_connections() -> None:
    """Raise the limit of open files as far as the system allows, because each connection is an open file."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems refuse even the limit that they report
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def stop_on_signals(exit_codes: "asyncio.Queue[int]") -> None:
    """End the process on SIGINT and SIGTERM, with the exit codes 130 and 143."""
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, exit_codes.put_nowait, 128 + number)


def stop_at_end_of_input(exit_codes: "asyncio.Queue[int]") -> None:
    """End the process with exit code 0 at the end of standard input, which a parent that dies closes."""
    loop = asyncio.get_running_loop()

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 65_536):
                pass
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(exit_codes.put_nowait, 0)

    threading.Thread(target=wait, name="end-of-input", daemon=True).start()
