"""The same judgments through ours and through the frameworks that judge, too: CPU a call, install size, import time.

Each subject asks one yes/no question about each of 400 answers, 32 at once, by the judge that it
brings, in an environment of its own below `.peers` (git ignores it) that is made at the first run
from the package index: some 2 GB. All call the same scripted endpoint (another process), which
answers at once in the form that each of them reads. What is counted is CPU time, user and system,
of the subject's process: of a call, after a warm-up, and of importing it and opening the judge. The
subjects run in turn, and the figures are medians over the rounds.

    python -m benchmarks.peers [--calls 400] [--at_once 32] [--rounds 1] [--only verifiers
    autorubric] python -m benchmarks --only peers --limit 1800 --total 1800         # the same, into
    benchmarks/RESULTS.md

`make bench` leaves it out, because it installs packages.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.measured import Measured, report, results_option
from benchmarks.peers.environments import CHECKOUT, OURS, PEERS, Peer


@dataclass(frozen=True, slots=True)
class Spent:
    """What a subject has spent: its version, ms of CPU a call, s of CPU to be ready, MB of `site-packages`."""

    version: str
    cpu_ms: float
    import_s: float
    installed_mb: float


@contextmanager
def endpoint() -> Iterator[int]:
    """The endpoint's port."""
    command = [sys.executable, "-m", "benchmarks.peers.endpoint"]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def judge(peer: Peer, port: int, calls: int, at_once: int) -> Mapping[str, object]:
    """Let a subject judge once, in a process and a working folder of its own."""
    command = [
        peer.python,
        peer.script,
        f"http://127.0.0.1:{port}/{peer.name}/v1",
        str(calls),
        str(at_once),
    ]
    ended = subprocess.run(command, cwd=peer.folder, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"{peer.name}: {ended.stderr[-2000:]}")
    figures: Mapping[str, object] = json.loads(ended.stdout.splitlines()[-1])
    return figures


def measure(peers: Sequence[Peer], calls: int, at_once: int, rounds: int) -> dict[str, Spent]:
    """What each subject spends; they run in turn, round by round."""
    figures: dict[str, list[Mapping[str, object]]] = {peer.name: [] for peer in peers}
    with endpoint() as port:
        for _ in range(rounds):
            for peer in peers:
                figures[peer.name].append(judge(peer, port, calls, at_once))

    def median(name: str, figure: str) -> float:
        return statistics.median(float(str(each[figure])) for each in figures[name])

    return {
        peer.name: Spent(
            str(figures[peer.name][0]["version"]),
            median(peer.name, "cpu_ms"),
            median(peer.name, "import_s"),
            peer.installed_mb,
        )
        for peer in peers
    }


def lines(spent: Mapping[str, Spent], calls: int, at_once: int) -> Iterator[Measured]:
    """Ours beside each peer's."""
    ours = spent[OURS.name]
    for name, peer in spent.items():
        if name == OURS.name:
            continue
        work = f"a yes/no question about each of {calls} answers, {at_once} at once"
        called = f"{name} {peer.version}"
        yield Measured("peers", work, "ms of CPU a call", ours.cpu_ms, called, peer.cpu_ms)
        yield Measured(
            "peers",
            "importing it and opening the judge",
            "s of CPU",
            ours.import_s,
            called,
            peer.import_s,
        )
        yield Measured(
            "peers",
            "its environment",
            "MB of site-packages",
            ours.installed_mb,
            called,
            peer.installed_mb,
        )


def main() -> None:
    """Measure and print."""
    names = [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--at_once", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    results_option(parser)
    options = parser.parse_args()
    subjects = [OURS, *(peer for peer in PEERS if peer.name in options.only)]
    for subject in subjects:
        print(f"{subject.folder}: {', '.join(subject.packages)}", flush=True)
        subject.install()
    report(
        lines(
            measure(subjects, options.calls, options.at_once, options.rounds),
            options.calls,
            options.at_once,
        ),
        options.results,
    )


if __name__ == "__main__":
    main()
