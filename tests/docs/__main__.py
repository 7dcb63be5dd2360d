"""Print what of the documents the tests run, and what they do not run and why: `python -m tests.docs`."""

from __future__ import annotations

from collections import Counter

from tests.docs.blocks import PAGES, name_of
from tests.docs.running import steps_of

if __name__ == "__main__":
    reasons: Counter[str] = Counter()
    for page in PAGES:
        for step in steps_of(page):
            print(f"{name_of(page)}:{step.what.line}: {step.reason or 'runs'}: {step.shown}")
            reasons[step.reason.partition(":")[0] or "runs"] += 1
    print("\n" + "\n".join(f"{count:4}  {reason}" for reason, count in reasons.most_common()))
