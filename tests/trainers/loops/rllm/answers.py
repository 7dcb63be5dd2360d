"""What our evaluators take for the answer of an episode whose agent has set one."""

from __future__ import annotations

import json

from rllm.types import Episode

from judgegym_trainers.rllm import _answer


def main() -> None:
    """Print the answers of three episodes."""
    print(json.dumps([_answer(Episode(artifacts={"answer": answer})) for answer in ("Seven.", None, 7)]))


if __name__ == "__main__":
    main()
