"""Sends generated judges' texts through every parser, and checks each verdict by means that share no code with them.

Prints how many verdicts each parser read, and every exception and every verdict that is not in its
text or is not the last one; and of texts whose verdict is known by how they are made, every other
one. The exit code is 1 if there are any.

    python -m benchmarks.judge_texts [--count 1000000] [--seed 0]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from itertools import islice

from benchmarks.judge_texts.kinds import made
from benchmarks.judge_texts.oracle import CHECKS, PARSERS, check_made
from benchmarks.judge_texts.texts import generated

SHOWN = 20
SHARE_MADE = 0.2
"""So many of the texts are made of parts."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    began, read, wrong = time.monotonic(), Counter[str](), 0
    count_made = round(SHARE_MADE * arguments.count)
    for number, text in enumerate(
        islice(generated(arguments.seed), arguments.count - count_made), start=1
    ):
        for name, check in CHECKS.items():
            try:
                read[name] += PARSERS[name](text) not in (None, False, "")
                problem = check(text)
            except Exception as error:  # noqa: BLE001  # what this program looks for
                problem = f"raised {error!r}"
            if problem is not None:
                wrong += 1
                if wrong <= SHOWN:
                    print(f"text {number}: {name}: {problem}: {text!r}")
        if number % 100_000 == 0:
            print(f"{number:,} texts, {wrong} wrong, {time.monotonic() - began:.0f} s", flush=True)
    read_of_made = 0
    for each in islice(made(arguments.seed), count_made):
        read_of_made += each.allowed != (None,)
        problem = check_made(each)
        if problem is not None:
            wrong += 1
            if wrong <= SHOWN:
                print(f"{each.parser}: {problem}: {each.text!r}")
    for name in CHECKS:
        print(f"{name:24} {read[name]:9,} read")
    print(f"{count_made:,} texts made of parts, {read_of_made:,} of them with a verdict")
    what = f"{arguments.count:,} texts (seed {arguments.seed}), {len(CHECKS)} parsers"
    print(f"{what}: {wrong} exceptions or wrong verdicts")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
