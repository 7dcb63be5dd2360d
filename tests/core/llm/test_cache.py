import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

import judgegym
from judgegym.llm.cache import CacheRow, JudgmentCache, request_key, request_shape
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import Choice

ASK = [{"role": "user", "content": "hi"}]
KEY: dict[str, Any] = {
    "identity": "http://h/v1 some-model",
    "messages": ASK,
    "parameters": {"temperature": 0.2, "max_tokens": 100},
    "vote": 0,
}


def key(**different: Any) -> str:
    return request_key(request_shape(**{**KEY, **different}))


def test_order_of_parameters_does_not_change_the_key() -> None:
    assert key(parameters={"max_tokens": 100, "temperature": 0.2}) == key()


def test_the_key_of_a_fixed_request_is_that_of_existing_caches() -> None:
    fixed = key(
        messages=[
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hi é \ud800"},
        ],
        parameters={"temperature": 0.2, "max_tokens": 100, "reasoning": {"effort": "low"}},
        vote=1,
    )
    assert fixed == "47078fa7b10d1994d48641eed1c812b7b7fdc4a3ffccd7e16bf23e6f052c2dc5"


@pytest.mark.parametrize(
    "content", [b"This is no database, but a text that is long enough. " * 50, b"\x00" * 4096]
)
def test_another_kind_of_file_is_a_settings_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"judge_cache: .*notes\.txt"):
        JudgmentCache(path)
    assert path.read_bytes() == content


def test_folder_as_cache_is_a_settings_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="judge_cache"):
        JudgmentCache(tmp_path)


def test_opening_waits_for_another_process_that_creates_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE answers (key TEXT PRIMARY KEY, answer BLOB NOT NULL) WITHOUT ROWID")
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(max_workers=1) as pool:
        opening = pool.submit(JudgmentCache, path)
        given_up, _ = wait([opening], timeout=0.2)
        other.execute("COMMIT")
        assert not given_up
        opening.result().close()
    other.close()


def test_a_lock_that_outlasts_the_wait_is_a_settings_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judgegym.llm.cache._BUSY_TIMEOUT_S", 0.0)
    path = tmp_path / "cache.sqlite"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE answers (key TEXT PRIMARY KEY, answer BLOB NOT NULL) WITHOUT ROWID")
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(max_workers=1) as pool:
        opening = pool.submit(JudgmentCache, path)
        wait([opening], timeout=10)
        other.execute("COMMIT")  # would end a wait without a limit, and with it the test
        with pytest.raises(SettingsError, match=r"judge_cache: .*locked"):
            opening.result()
    other.close()


WRITER = """
import asyncio, sys
from pathlib import Path
from judgegym.llm.cache import CacheRow, JudgmentCache
from judgegym.llm.wire import Choice

def put(cache, key, text):
    return cache.put(key, Choice(text), previous=CacheRow())

async def main(path, name):
    cache = JudgmentCache(path)
    for number in range(100):
        await asyncio.gather(put(cache, f"{name} {number}", name), put(cache, f"both {number}", name))
    cache.close()

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.mark.slow
def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    root = Path(judgegym.__file__).parents[1]
    names = ["one", "two", "three"]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    database = sqlite3.connect(path)
    found = {key for (key,) in database.execute("SELECT key FROM answers")}
    database.close()
    assert found == {f"{name} {number}" for name in [*names, "both"] for number in range(100)}


UNREADABLE: list[Any] = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'{"message": 5}',
    b"\xff",
    b"[" * 100_000,
    "text",
    5,
    2.5,
]


@pytest.mark.parametrize("stored", UNREADABLE, ids=[repr(stored)[:12] for stored in UNREADABLE])
async def test_row_that_cannot_be_read_is_a_miss_and_is_replaced(
    tmp_path: Path, stored: Any
) -> None:
    path = tmp_path / "cache.sqlite"
    cache = JudgmentCache(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("INSERT INTO answers VALUES ('a', ?)", (stored,))
    other.close()
    row = await cache.get("a")
    assert (row.choice, row.stored) == (None, stored)
    await cache.put("a", Choice("text"), previous=row)
    assert (await cache.get("a")).choice == Choice("text")
    cache.close()


async def test_row_that_another_process_has_replaced_since_stays(tmp_path: Path) -> None:
    cache = JudgmentCache(tmp_path / "cache.sqlite")
    await cache.put("a", Choice(""), previous=CacheRow())
    row = await cache.get("a")
    await cache.put("a", Choice("first"), previous=row)
    await cache.put("a", Choice("second"), previous=row)
    assert (await cache.get("a")).choice == Choice("first")
    cache.close()


@pytest.mark.parametrize("uses", [["put", "get"], ["get", "put"]])
async def test_a_cache_that_becomes_unusable_costs_no_answer_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, uses: list[str]
) -> None:
    path = tmp_path / "cache.sqlite"
    cache = JudgmentCache(path)
    await cache.put("a", Choice("text"), previous=CacheRow())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("DROP TABLE answers")
    other.close()
    for use in uses:
        if use == "get":
            assert await cache.get("a") == CacheRow()
        else:
            await cache.put("b", Choice("text"), previous=CacheRow())
    cache.close()
    (warning,) = (record.getMessage() for record in caplog.records)
    assert str(path) in warning
    assert "no such table" in warning
