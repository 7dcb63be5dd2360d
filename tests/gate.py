"""The gate: what `make test` runs of the tests, and which of them take much CPU time.

`pytest` alone runs every test, as `make test-all` does. `pytest --gate` leaves out

* the files and folders of `LEFT_OUT`, which it does not import,
* tests that open a browser, and those marked `slow`: `slow("serve")` marks the cases whose ids
  contain that word,
* of each function of `ROTATED`, all but `CASES` of its cases. The day decides which: each case has
  its turn. The header names the day, and `--day` repeats its choice.

Hypothesis then draws the same examples in each run. The summary at the end names the tests that
took more CPU time than `budget.toml` plans for one: a report, which changes no exit status, because
the seconds depend on the machine. What fixtures of a module or a session take is nobody's; what the
first import of a module takes is the first test's.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import settings as hypothesis_settings

from tests import forking

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TESTS = Path(__file__).parent
BUDGET: dict[str, Any] = tomllib.loads(
    (TESTS / "house" / "budget.toml").read_text(encoding="utf-8")
)

LEFT_OUT = {
    "benchmarks": "scripts that measure, each a run of its own",
    "docs": "runs what the handbook shows",
    "examples": "each example is run",
    "trainers/loops/install": "environments of their own",
    "core/serve/test_wandb.py": "starts the service of wandb",
    "core/server/test_fuzz.py": "fuzz",
    "test_examples.py": "each example is run",
    "test_install.py": "installs into environments of their own",
    "test_wheel.py": "builds wheels and installs them",
}
"""Files and folders of `make test-all` alone, with the reason."""

ROTATED = ("conformance", "faults")
CASES = 3

ADVICE = "Make them cheaper, or mark them `slow`, and `make test-all` alone runs them."
_SHOWN = 20
_CPU_SECONDS = "cpu_seconds"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gate")
    group.addoption("--gate", action="store_true", help="run the tests of `make test` alone")
    group.addoption(
        "--day",
        metavar="YYYY-MM-DD",
        help="the gate's choice of cases of that day (default: today, in UTC)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "slow(*words): cases whose ids contain a word, or all, are left out of the gate"
    )
    hypothesis_settings.register_profile("all", deadline=None)
    hypothesis_settings.register_profile("gate", deadline=None, derandomize=True, max_examples=30)
    hypothesis_settings.load_profile("gate" if config.option.gate else "all")
    if config.option.gate:
        day = config.option.day
        config.option.day = str(
            date.fromisoformat(day) if day else datetime.now(timezone.utc).date()
        )  # of the workers, too
        config.pluginmanager.register(_Gate(config))


def whole_gate(config: pytest.Config) -> bool:
    """Whether all tests of the gate are collected, and no others."""
    narrowed = (
        config.option.keyword
        or config.option.markexpr
        or config.option.ignore
        or config.option.deselect
    )
    return bool(
        config.option.gate and config.args_source is config.ArgsSource.TESTPATHS and not narrowed
    )


def cases_of_day(day: str, function: str, count: int) -> set[int]:
    """The cases of a function that the gate runs on a day: `CASES` that are far apart, so that every one has its turn.

    Args:
        day: such as `2026-11-24`.
        function: its node id.
        count: how many cases it has.
    """
    if count <= CASES:
        return set(range(count))
    start = date.fromisoformat(day).toordinal() + crc32(function.encode())
    return {(start + part * count // CASES) % count for part in range(CASES)}


class _Gate:
    def __init__(self, config: pytest.Config) -> None:
        self._day: str = config.option.day
        self._shared_s = 0.0
        """CPU time of the fixtures that several tests share."""
        self._start_s = 0.0
        self._dear: list[tuple[float, str]] = []

    def pytest_report_header(self) -> str:
        return (
            f"gate: {CASES} cases of each function of {', '.join(ROTATED)}; --day {self._day} "
            "repeats the choice"
        )

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        inside = collection_path.is_relative_to(TESTS)
        return (inside and collection_path.relative_to(TESTS).as_posix() in LEFT_OUT) or None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        left_out = {item for item in items if _is_slow(item) or "browser" in _fixtures(item)}
        cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            if (
                any(item.path.is_relative_to(TESTS / room) for room in ROTATED)
                and item not in left_out
            ):
                cases[item.nodeid.partition("[")[0]].append(item)
        for function, of_function in cases.items():
            chosen = cases_of_day(self._day, function, len(of_function))
            left_out.update(item for index, item in enumerate(of_function) if index not in chosen)
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
        shared, before = self._shared_s, _cpu_s()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._shared_s = shared + _cpu_s() - before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[Any]:
        before = _cpu_s()
        try:
            return (yield)
        finally:
            if nextitem is None or nextitem.path != item.path:
                self._shared_s += _cpu_s() - before

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._start_s = self._own_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Iterator[Any]:
        report: pytest.TestReport = yield
        if call.when == "teardown":
            report.user_properties.append((_CPU_SECONDS, self._own_s() - self._start_s))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Also of other workers' tests."""
        for name, seconds in report.user_properties:
            if (
                name == _CPU_SECONDS
                and isinstance(seconds, float)
                and seconds > BUDGET["cpu_seconds_of_a_test"]
            ):
                self._dear.append((seconds, report.nodeid))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._dear:
            limit = BUDGET["cpu_seconds_of_a_test"]
            terminalreporter.section("dear tests")
            terminalreporter.line(
                f"{len(self._dear)} took more than {limit} s of CPU on this machine. {ADVICE}"
            )
            for seconds, test in sorted(self._dear, reverse=True)[:_SHOWN]:
                terminalreporter.line(f"{seconds:.2f} s  {test}")

    def _own_s(self) -> float:
        return _cpu_s() - self._shared_s


def _is_slow(item: pytest.Item) -> bool:
    _, _, case = item.nodeid.partition("[")
    return any(
        not mark.args or any(word in case for word in mark.args)
        for mark in item.iter_markers("slow")
    )


def _fixtures(item: pytest.Item) -> Collection[str]:
    return getattr(item, "fixturenames", ())


def _cpu_s() -> float:
    """CPU time of this process and of all its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime + forking.cpu_seconds
