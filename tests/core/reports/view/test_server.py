"""What the server answers, and what it refuses, over real HTTP."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from judgegym.reports.results.folder import find_run_paths
from judgegym.reports.run_page.page import write_report
from judgegym.reports.view import reports
from judgegym.reports.view.entries import make_run_id
from judgegym.reports.view.loopback import is_own_name
from judgegym.reports.view.reports import Reports, read_content_policy
from judgegym.reports.view.server import make_app
from tests.command import PATIENCE_S
from tests.core.engine.samples_of import sample
from tests.core.reports.results.test_run import written
from tests.core.reports.view.made import run_of, with_metrics


class Server:
    """The application over a folder."""

    def __init__(self, url: str, session: aiohttp.ClientSession, folder: Path, made: Path) -> None:
        self.url, self.folder, self.made = url, folder, made
        self._session = session

    def key(self, name: str) -> str:
        return make_run_id(self.folder / name, self.folder)

    async def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str, Any]:
        url = URL(f"{self.url}{path}", encoded=True)
        own = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.request(
            method, url, headers=own, allow_redirects=False
        ) as response:
            return response.status, (await response.read()).decode(), response.headers

    async def report(self, name: str) -> tuple[int, str]:
        status, text, _ = await self.get(f"/run/{self.key(name)}")
        return status, text


@asynccontextmanager
async def served(folder: Path, tmp_path: Path) -> AsyncIterator[Server]:
    made = tmp_path / "made"
    made.mkdir(exist_ok=True)
    runner = web.AppRunner(make_app(folder, Reports(made)), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with aiohttp.ClientSession() as session:
        yield Server(f"http://127.0.0.1:{runner.addresses[0][1]}", session, folder, made)
    await runner.cleanup()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.mark.slow
async def test_every_response_has_the_headers_and_a_policy_that_allows_only_the_pages_own_scripts(
    runs: Path, tmp_path: Path
) -> None:
    run_of(runs / "one")
    run_of(runs / "two", (0.0, 0.0, 0.5, 1.0), date="2026-11-02T10:00:00+00:00")
    async with served(runs, tmp_path) as server:
        pair = f"/compare?run={server.key('one')}&run={server.key('two')}"
        fixed = {
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        for path in (
            "/",
            f"/run/{server.key('one')}",
            pair,
            "/none",
            "/compare",
            "/run/0123456789abcdef",
        ):
            _, text, headers = await server.get(path)
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy, path
            assert "unsafe" not in policy and "*" not in policy
            assert policy == f"{read_content_policy(text.encode())}; frame-ancestors 'none'"
            assert {name: headers[name] for name in fixed} == fixed
            assert not [name for name in headers if name.lower().startswith("access-control")]


def test_only_names_of_the_loopback_are_own() -> None:
    own = ("127.0.0.1", "127.0.0.1:8300", "localhost:9000", "LOCALHOST", "[::1]:8300")
    foreign = (
        *(
            "::1",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:8300",
            "127.0.0.1@evil.example",
        ),
        *("0.0.0.0:8300", "192.168.0.1", "", "localhost:80:80", "localhost\n"),
    )
    assert [host for host in (*own, *foreign) if is_own_name(host)] == [*own]


async def test_foreign_names_other_sites_and_other_methods_are_refused(
    runs: Path, tmp_path: Path
) -> None:
    run_of(runs / "secret")
    async with served(runs, tmp_path) as server:
        for headers in ({"Host": "evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
            for path in ("/", f"/run/{server.key('secret')}"):
                status, text, _ = await server.get(path, **headers)
                assert status == 403 and "secret" not in text
        for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"):
            status, text, headers_ = await server.get("/", method)
            allowed = "GET" if method == "POST" else "GET, POST"  # which one path alone takes
            assert (status, headers_["Allow"]) == (405, allowed) and "secret" not in text
        assert (await server.get("/", Sec_Fetch_Site="none"))[0] == 200
        assert (await server.get("/", Sec_Fetch_Site="same-origin", Host="localhost:1"))[0] == 200
        url = URL(server.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        )
        assert b" 200 " not in await reader.readline(), "two names"
        writer.close()


async def test_no_address_and_no_link_leads_out_of_the_folder_or_to_a_file(
    runs: Path, tmp_path: Path
) -> None:
    run_of(runs / "one")
    run_of(tmp_path / "secret", question="the secret question")
    (tmp_path / "secret" / "report.html").write_text("the secret question")
    (runs / "alias").symlink_to(tmp_path / "secret")
    async with served(runs, tmp_path) as server:
        for path in (
            *(
                "/run/../../secret",
                "/run/%2e%2e%2fsecret",
                "/../secret/report.html",
                "/run/..%2f..%2fetc%2fpasswd",
            ),
            *(
                "/run/one/samples.jsonl",
                "/one/report.html",
                "/run/0123456789abcdef",
                "/static/view.js",
            ),
            *(f"/run/{make_run_id(tmp_path / 'secret', tmp_path)}", f"/run/{server.key('alias')}"),
        ):
            status, text, _ = await server.get(path)
            assert status == 404 and "the secret question" not in text, path
        assert "alias" not in (await server.get("/"))[1]


@pytest.mark.slow
async def test_the_folder_is_read_again_for_each_request_and_told_if_it_is_gone(
    runs: Path, tmp_path: Path
) -> None:
    async with served(runs, tmp_path) as server:
        assert "There is no run in this folder yet" in (await server.get("/"))[1]
        run_of(runs / "late")
        assert ">late</a>" in (await server.get("/"))[1]
        assert (await server.report("late"))[0] == 200
    async with served(tmp_path / "gone", tmp_path) as server:
        status, text, _ = await server.get("/")
        assert status == 500 and "no such folder" in text


def files(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}


@pytest.mark.slow
async def test_a_missing_report_is_made_once_and_the_folder_stays_as_it_is(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of(runs / "one")
    written(runs / "unfinished", [sample()])
    before, made = files(runs), list[Path]()

    def write(path: Path, *, output: Path) -> Path:
        made.append(path)
        return write_report(path, output=output)

    monkeypatch.setattr(reports, "write_report", write)
    async with served(runs, tmp_path) as server:
        texts = await asyncio.gather(*(server.report("one") for _ in range(3)))
        assert {status for status, _ in texts} == {200}
        assert len({text for _, text in texts}) == 1 and "a-policy" in texts[0][1]
        assert (await server.report("unfinished"))[0] == 200
        assert [path.name for path in made] == ["one", "unfinished"]
        assert files(runs) == before
        with (runs / "unfinished" / "samples.jsonl").open("ab") as file:
            file.write(sample("row-2", question="a later question").to_line())
        await server.report("unfinished")
        assert [path.name for path in made] == ["one", "unfinished", "unfinished"]


@pytest.mark.slow
async def test_a_report_in_the_directory_is_shown_unless_it_is_older_or_not_one_of_ours(
    runs: Path, tmp_path: Path
) -> None:
    path = run_of(runs / "one")
    report = write_report(path)
    report.write_bytes(report.read_bytes().replace(b"</body>", b"<!-- as it lies there --></body>"))
    foreign = "<!DOCTYPE html><script>fetch('http://evil.example')</script>"
    async with served(runs, tmp_path) as server:
        assert "as it lies there" in (await server.report("one"))[1]
        samples = path / "samples.jsonl"
        os.utime(samples, ns=(report.stat().st_mtime_ns + 10**9,) * 2)
        assert "as it lies there" not in (await server.report("one"))[1]
        report.write_text(foreign)
        os.utime(report, ns=(samples.stat().st_mtime_ns + 10**9,) * 2)
        status, text = await server.report("one")
        assert status == 200 and "evil.example" not in text
        (tmp_path / "kept.html").write_bytes(write_report(path).read_bytes() + b"<!-- linked -->")
        os.utime(tmp_path / "kept.html", ns=(samples.stat().st_mtime_ns + 10**9,) * 2)
        report.unlink()
        report.symlink_to(tmp_path / "kept.html")
        status, text = await server.report("one")
        assert status == 200 and "<!-- linked -->" not in text


@pytest.mark.slow
async def test_a_planted_report_that_leads_away_is_not_served(runs: Path, tmp_path: Path) -> None:
    report = write_report(run_of(runs / "one"))
    before, after = report.read_bytes().split(b"</head>", 1)
    async with served(runs, tmp_path) as server:
        for element in (
            '<META\nhttp-equiv="refresh" content="0;url=//evil.example">',
            "<link/rel=preconnect>",
        ):
            report.write_bytes(before + b"</head>" + element.encode() + after)
            status, text = await server.report("one")
            assert status == 200 and "a-policy" in text and element not in text


@pytest.mark.slow
def test_an_element_that_leads_away_is_found_wherever_parts_of_the_file_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = write_report(run_of(tmp_path / "one")).read_bytes()
    start = page.index(b"</head>")
    cases = (
        (b"", False),
        (b"<metaphor><linked>", False),
        (b"<metaphor>.<mEta>", True),
        (b"<link", True),
    )
    for size, (text, leads) in product([1, 2, 5, 20, 23, 64], cases):
        monkeypatch.setattr(reports, "_PART", size)
        shown = page[: start + 200] + text + page[-200:]
        assert reports._leads_nowhere(io.BytesIO(shown)) is not leads, (size, text)


@pytest.mark.slow
async def test_a_pipe_in_the_place_of_a_report_is_not_waited_for(
    runs: Path, tmp_path: Path
) -> None:
    os.mkfifo(run_of(runs / "one") / "report.html")
    async with served(runs, tmp_path) as server:
        status, text = await asyncio.wait_for(server.report("one"), PATIENCE_S)
        assert status == 200 and "a-policy" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "general",
    [
        {"date": "0001-01-01T00:00:00+23:00", "protocol": {"env.judge_temperature": 10**400}},
        {"date": "9999-12-31T23:59:59-23:00", "seed": -1, "notices": [7, [{}], {"a": []}, "said"]},
        {"rows": 10**400, "datasets": [7, {"name": [None]}, {"name": {}}]},
    ],
)
async def test_what_a_damaged_run_says_hides_no_other_run(
    runs: Path, tmp_path: Path, general: dict[str, Any]
) -> None:
    run_of(runs / "one")
    rows = {"selected": 6, "digest": "00"}
    path = run_of(runs / "two", (0.0, 0.0, 0.5, 1.0, 1.0, 0.5), **{"rows": rows, **general})
    with_metrics(path, **{"eval/judge_cost_usd": 10**400, "eval/policy_completion_tokens": 10**400})
    (run_of(runs / "three") / "samples.jsonl").write_text("{}\n")
    async with served(runs, tmp_path) as server:
        status, text, _ = await server.get("/")
        assert status == 200 and ">one</a>" in text and ">two</a>" in text
        assert (await server.report("two"))[0] == 200
        pair = f"/compare?run={server.key('one')}&run={server.key('two')}&across=protocol&across=data&across=judge"
        assert (await server.get(pair))[0] == 200
        status, text = await server.report("three")
        assert status == 500 and "samples.jsonl: none" in text


@pytest.mark.slow
async def test_the_oldest_run_is_the_reference(runs: Path, tmp_path: Path) -> None:
    run_of(runs / "new", (1.0, 1.0, 0.5, 1.0), date="2026-11-03T10:00:00+00:00")
    run_of(runs / "old", date="2026-11-02T10:00:00+00:00")
    async with served(runs, tmp_path) as server:
        status, text, _ = await server.get(
            f"/compare?run={server.key('new')}&run={server.key('old')}"
        )
        assert status == 200
        assert text.index(f"/run/{server.key('old')}") < text.index(f"/run/{server.key('new')}")
        assert f"/run/{server.key('new')}#row-1" in text


@pytest.mark.slow
async def test_a_refused_comparison_says_why_and_offers_the_way_across(
    runs: Path, tmp_path: Path
) -> None:
    run_of(runs / "one")
    run_of(runs / "other", judge_model_name="<other> judge", date="2026-11-02T10:00:00+00:00")
    async with served(runs, tmp_path) as server:
        address = f"/compare?run={server.key('one')}&run={server.key('other')}"
        status, text, _ = await server.get(address)
        assert status == 409 and "differ in judge" in text and "&lt;other&gt; judge" in text
        assert "Compare across judges" in text and 'name="across" value="judge"' in text
        status, text, _ = await server.get(f"{address}&across=judge&across=everything")
        assert status == 200 and "<other>" not in text


async def test_runs_that_nothing_makes_comparable_get_no_such_offer(
    runs: Path, tmp_path: Path
) -> None:
    run_of(runs / "one")
    run_of(runs / "other", environment="pairwise_judgement", date="2026-11-02T10:00:00+00:00")
    async with served(runs, tmp_path) as server:
        one = server.key("one")
        status, text, _ = await server.get(f"/compare?run={one}&run={server.key('other')}")
        assert status == 409 and "run of arena_hard" in text and "<form" not in text
        for query in (
            "",
            "?run={}",
            "?run={0}&run={0}",
            "?run={}&run=0123456789abcdef",
            "?run={}&run=..",
        ):
            status, text, _ = await server.get(f"/compare{query.format(one)}")
            assert status in (400, 404) and "Traceback" not in text, "too few runs, or unknown ones"


@pytest.mark.slow
async def test_names_and_settings_of_a_run_stay_text(runs: Path, tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=alert(1)>{{ 7 * 7 }}\u202e'\""
    run_of(
        runs / "<script>alert(1)<|script>",
        model_name=hostile,
        judge_model_name=hostile,
        environment=hostile,
    )
    (run_of(runs / "x") / "metrics.json").write_text(json.dumps({"config_general": hostile}))
    odd = runs / os.fsdecode(b"caf\xe9")
    run_of(odd, date="2026-11-02T10:00:00+00:00")
    run_of(runs / "other", date="2026-11-03T10:00:00+00:00")
    async with served(runs, tmp_path) as server:
        _, text, _ = await server.get("/")
        assert "<img" not in text and "<script>alert" not in text and "{{ 7 * 7 }}" in text
        assert "caf\ufffd" in text
        statuses = [
            (await server.get(f"/run/{make_run_id(path, runs)}"))[0]
            for path in find_run_paths(runs)
        ]
        assert statuses.count(200) == 3 and statuses.count(500) == 1
        status, text, _ = await server.get(
            f"/compare?run={make_run_id(odd, runs)}&run={server.key('other')}"
        )
        assert status == 200 and f"/run/{make_run_id(odd, runs)}#row-1" not in text
        assert f'href="/run/{make_run_id(odd, runs)}"' in text
