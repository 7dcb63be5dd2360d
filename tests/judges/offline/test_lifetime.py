import socket

import pytest

from judges.offline.lifetime import listen, url_of


def test_port_0_lets_the_system_choose() -> None:
    with listen("127.0.0.1", 0) as one, listen("localhost", 0) as two:
        assert url_of(one).startswith("http://127.0.0.1:") and url_of(one).endswith("/v1")
        assert url_of(one) != url_of(two)
        port = one.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            pass


def test_a_port_in_use_is_an_os_error() -> None:
    with listen("127.0.0.1", 0) as one, pytest.raises(OSError):
        listen("127.0.0.1", one.getsockname()[1])


def test_a_host_of_version_6_is_bracketed_in_the_url() -> None:
    try:
        listener = listen("::1", 0)
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with listener:
        assert url_of(listener) == f"http://[::1]:{listener.getsockname()[1]}/v1"
