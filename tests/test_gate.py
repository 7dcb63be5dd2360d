"""The gate leaves out what is marked, gives each case its turn, and names the tests that take much CPU time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

import pytest
from hypothesis import settings

from tests import gate

pytest_plugins = ("pytester",)

BURN = """
import time

def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
"""


@pytest.fixture
def tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.Pytester]:
    """A folder of tests, which are dear above 0.4 s of CPU."""
    monkeypatch.setattr(gate, "TESTS", pytester.path)
    monkeypatch.setattr(gate, "BUDGET", {"cpu_seconds_of_a_test": 0.4})
    profile = settings.get_current_profile_name()
    yield pytester
    settings.load_profile(profile)


def run(tests: pytest.Pytester, *flags: str) -> pytest.RunResult:
    tests.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    return tests.runpytest_inprocess("-p", "no:schemathesis", "-p", "tests.gate", "--gate", *flags)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 34])
def test_each_case_has_its_turn(count: int) -> None:
    days = [str(date(2026, 11, 24) + timedelta(days=passed)) for passed in range(count)]
    chosen = [
        gate.cases_of_day(day, "tests/conformance/test_names.py::test_a", count) for day in days
    ]
    assert set.union(*chosen) == set(range(count))
    assert {len(cases) for cases in chosen} == {min(count, gate.CASES)}


@pytest.mark.slow
def test_day_repeats_the_choice(tests: pytest.Pytester) -> None:
    (tests.mkdir("faults") / "test_f.py").write_text(
        "import pytest\n@pytest.mark.parametrize('kind', range(20))\ndef test_f(kind): "
        "print('kind', kind)\n"
    )
    first = run(tests, "-s", "--day", "2026-11-24")
    first.assert_outcomes(passed=3, deselected=17)
    first.stdout.fnmatch_lines(
        "gate: 3 cases of each function of *; --day 2026-11-24 repeats the choice"
    )
    again, later = run(tests, "-s", "--day", "2026-11-24"), run(tests, "-s", "--day", "2026-11-25")
    kinds = [
        [line for line in ended.outlines if "kind " in line] for ended in (first, again, later)
    ]
    assert kinds[0] == kinds[1] != kinds[2]


@pytest.mark.slow
def test_what_is_slow_is_left_out_by_case_or_as_a_whole(tests: pytest.Pytester) -> None:
    tests.makepyfile(
        """
        import pytest

        @pytest.mark.slow
        def test_whole(): pass

        @pytest.mark.slow("serve")
        @pytest.mark.parametrize("verb", ["serve", "process"])
        def test_case(verb): assert verb == "process"

        def test_page(browser): pass
        """
    )
    run(tests).assert_outcomes(passed=1, deselected=3)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["here", "worker"])
def test_dear_tests_are_named_and_fail_nothing(
    tests: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    tests.makepyfile(
        BURN + "def test_dear(): burn(0.5)\ndef test_dearer(): burn(1.0)\ndef test_cheap(): pass\n"
    )
    ended = run(tests, "--color=no", *workers)
    assert ended.ret == pytest.ExitCode.OK
    ended.stdout.fnmatch_lines(
        [
            "*= dear tests =*",
            f"2 took more than 0.4 s of CPU on this machine. {gate.ADVICE}",
            "?.?? s  *::test_dearer",
            "?.?? s  *::test_dear",
        ]
    )


@pytest.mark.slow
def test_what_several_tests_share_is_nobodys(tests: pytest.Pytester) -> None:
    tests.makepyfile(
        f"""
        import pytest
        {BURN.strip().replace(chr(10), chr(10) + " " * 8)}

        @pytest.fixture(scope="module")
        def shared():
            burn(0.5)
            yield
            burn(0.5)

        def test_with_shared(shared): pass
        """
    )
    ended = run(tests)
    ended.assert_outcomes(passed=1)
    ended.stdout.no_fnmatch_line("*dear tests*")
