"""The command as a user types it."""

from __future__ import annotations

import random
import re
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from judgegym.reports.run_page.page import write_report
from judgegym.reports.view.__main__ import main
from judgegym.reports.view.entries import make_run_id
from tests.command import PATIENCE_S
from tests.core.reports.view.made import command, run_of, viewed
from tests.forking import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_with_the_code_that_a_shell_expects(
    tmp_path: Path, stop: int, code: int
) -> None:
    run_of(tmp_path / "one")
    with viewed(tmp_path) as (url, process):
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url) as response:
            assert b">one</a>" in response.read()
        process.send_signal(stop)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out, err) == (code, "", "")


@pytest.mark.slow
def test_a_page_that_is_being_made_holds_up_no_signal(tmp_path: Path) -> None:
    for_ever = (
        "import sys, threading; from judgegym.reports.view import __main__, server; "
        "server.list_runs = lambda _: threading.Event().wait(); sys.exit(__main__.main())"
    )
    with viewed(tmp_path, program=("-c", for_ever)) as (url, process):
        asked = socket.create_connection(("127.0.0.1", urlsplit(url).port or 0))
        asked.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with pytest.raises(TimeoutError):
            asked.settimeout(0.5)
            asked.recv(1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        asked.close()
        assert process.returncode == 130


@pytest.mark.slow
def test_it_listens_on_the_other_loopback(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no ::1")
    with viewed(tmp_path, "--host=::1") as (url, _), urllib.request.urlopen(url) as response:
        assert url.startswith("http://[::1]:") and response.status == 200


@pytest.mark.slow
def test_it_opens_a_browser_only_if_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, script = tmp_path / "seen", tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" >> {seen}\n')
    script.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(script))
    with viewed(tmp_path):
        pass
    with viewed(tmp_path, "--open") as (url, _):
        ends = time.monotonic() + PATIENCE_S
        while not (seen.exists() and seen.read_text()) and time.monotonic() < ends:
            time.sleep(0.05)
    assert seen.read_text() == f"{url}\n"


def test_wrong_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    cases = {
        ("--port=7",): "FOLDER",
        (f"{tmp_path}/none",): f"{tmp_path}/none: .*no such folder",
        (f"{tmp_path}/file",): f"{tmp_path}/file is a file; .*folder of runs",
        (str(tmp_path), "--host=0.0.0.0"): "--host",
        (str(tmp_path), "--port=70000"): "--port: .* from 0 to 65535, found 70000",
        (str(tmp_path), "--port=web"): "--port: .* from 0 to 65535, found web",
        (str(tmp_path), "--nothing"): "--nothing",
    }
    for words, said in cases.items():
        try:
            code = main(words, prog="judgegym view")
        except SystemExit as ended:
            code = int(str(ended.code))
        told = capsys.readouterr().err
        assert code == 2 and re.search(said, told) and told.count("\n") == 1


@pytest.mark.slow
def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = command(str(tmp_path), f"--port={taken.getsockname()[1]}")
        ended = subprocess.run(
            words, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    assert ended.returncode == 2 and ended.stdout == ""
    assert "--port=0 takes" in ended.stderr and ended.stderr.count("\n") == 1


def test_help_fits_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        main(["--help"], prog="judgegym view")
    said = capsys.readouterr().out
    assert ended.value.code == 0 and said.startswith("usage: judgegym view")
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.slow
def test_requests_that_are_no_http_and_browsers_that_leave_print_nothing(tmp_path: Path) -> None:
    path = run_of(
        tmp_path / "one", question=random.Random(0).randbytes(3_000_000).hex()
    )  # which does not get smaller
    write_report(path)
    with viewed(tmp_path) as (url, process):
        address = ("127.0.0.1", urlsplit(url).port or 0)
        no_http = (
            b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"\x16\x03\x01\r\n\r\n",
            b"GET /" + b"a" * 9999,
        )
        for request in no_http:
            with socket.create_connection(address) as asked:
                asked.sendall(request)
                assert asked.recv(20).startswith(b"HTTP/1.0 400 ")
        for _ in range(3):
            with socket.create_connection(address) as asked:
                asked.sendall(
                    f"GET /run/{make_run_id(path, tmp_path)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
                )
                assert asked.recv(20).startswith(b"HTTP/1.1 200 ")
        with urllib.request.urlopen(url) as response:
            assert response.status == 200
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE_S) == ("", "")
