"""How much of what judges are asked about a group of completions a server's prefix cache computes once.

For each judge, all its prompts about the G completions of a bundled sample row are collected: both
games of Arena-Hard, all aspects, rounds of critique. A token is shared if another prompt of the
group begins with the same
tokens up to this one: a cache that forgets nothing (vLLM's, SGLang's) computes it once. The share
is that of all prompt tokens of the group, over all rows; a token is a byte of UTF-8, as in the
bundled tokenizer. Completions are texts of the stand-in's policy, `--pieces` of them joined (a
piece has about a hundred words).

Before is the order that a prompt had, or that is published; after is the one with what the group
shares first. Two
lines are for the layouts that are right as they are: several aspects, whose prompts share the
completion (the other figure is the completion last), and RewardBench's rating. The choice judge
asks once about a whole group.

    python -m benchmarks.prefix_share [--group 8] [--pieces 3] [--results FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from benchmarks.measured import Measured, report, results_option
from judgegym.judges.arena import ArenaJudgeSettings, ArenaTaskJudge
from judgegym.judges.aspects.judge import AspectPanel
from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.core.prompt_format import find_marker_lines, read_sections
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.pairwise import rating_prompt
from judgegym.judges.peers import PeerJudgeSettings, PeerTaskJudge
from judgegym.judges.rubrics.judge import RubricTaskJudge
from judgegym.judges.rubrics.prompt import RubricJudgeSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.types import ChatResponse
from judgegym.llm.wire import Choice, Message
from judgegym.offline.answers import make_answers
from judgegym.offline.request import parse_request

SAMPLES = Path(__file__).resolve().parent.parent / "judgegym" / "data" / "samples"
SUSPECT = "<|im_end|>"

Row = Mapping[str, Any]
Prompts = list[str]
Asks = Callable[[Row, str], Awaitable[Prompts]]


class Recorder(ChatClient):
    """A client that notes what it is asked, and answers as the stand-in does, without HTTP."""

    def __init__(self) -> None:
        super().__init__(ArenaJudgeSettings(judge_base_url="http://127.0.0.1:1/v1").chat_settings())
        self.asked: list[Sequence[Message]] = []

    async def chat(self, messages: Sequence[Message], **_: Any) -> ChatResponse:  # type: ignore[override]
        self.asked.append(messages)
        request = parse_request(
            orjson.dumps({"model": "judge", "messages": messages, "temperature": 0})
        )
        return ChatResponse((Choice(make_answers(request)[0], finish_reason="stop"),))


def prompt_text(messages: Iterable[Message]) -> str:
    """A conversation as a chat template would write it."""
    return "".join(f"<|{message['role']}|>{message['content']}" for message in messages)


def judged(factory: Callable[..., Any], settings: Any, case: Callable[[Row, str], object]) -> Asks:
    """What a judge asks about a completion."""

    async def asks(row: Row, completion: str) -> Prompts:
        client = Recorder()
        await factory(settings, client).judge(case(row, completion))
        return [prompt_text(messages) for messages in client.asked]

    return asks


def arena(**settings: Any) -> Asks:
    return judged(ArenaTaskJudge, ArenaJudgeSettings(**settings), _arena_task)


def _arena_task(row: Row, completion: str) -> JudgeTask:
    return JudgeTask(row["prompt"], (completion,), baseline=row["answer"])


def aspects(**settings: Any) -> Asks:
    return judged(AspectPanel, AspectJudgeSettings(**settings), _aspect_task)


def _aspect_task(row: Row, completion: str) -> JudgeTask:
    return JudgeTask(
        row["question"], (completion,), row.get("reference"), context=row.get("context")
    )


def rubric(**settings: Any) -> Asks:
    return judged(RubricTaskJudge, RubricJudgeSettings(**settings), _rubric_task)


def _rubric_task(row: Row, completion: str) -> JudgeTask:
    given = row["rubric"]
    levels = (
        ()
        if isinstance(given, str)
        else tuple((n, given[f"score{n}_description"]) for n in range(1, 6))
    )
    criteria = given if isinstance(given, str) else given["criteria"]
    return JudgeTask(
        row["instruction"], (completion,), row.get("reference_answer"), criteria, levels
    )


def peer(**settings: Any) -> Asks:
    return judged(
        PeerTaskJudge,
        PeerJudgeSettings(**settings),
        lambda row, text: JudgeTask(row["query"], (text,)),
    )


def former_peer(**settings: Any) -> Asks:
    """The prompt of an evaluation as it was: query, response, rubric, instructions."""
    asks = peer(**settings)

    async def asked(row: Row, completion: str) -> Prompts:
        return [_former_order(prompt) for prompt in await asks(row, completion)]

    return asked


def _former_order(prompt: str) -> str:
    titles = ("RUBRIC", "QUERY", "CANDIDATE RESPONSE", "END OF CANDIDATE RESPONSE")
    sections = read_sections(prompt, list(find_marker_lines(prompt, titles)), titles)
    if sections is None:  # the critique, whose order is what it was
        return prompt
    task, _, instructions = prompt[: sections.start].partition("\n\n")
    shown = [
        f"{title}:\n{sections.texts[title]}" for title in ("QUERY", "CANDIDATE RESPONSE", "RUBRIC")
    ]
    return "\n\n".join([task, *shown, instructions.rstrip()])


async def rating(row: Row, completion: str) -> Prompts:
    return [prompt_text(rating_prompt(row["prompt"], completion).messages)]


def with_suspect(asks: Asks, *, tag_of_all: bool) -> Asks:
    """The same with a role token in the baseline; as it was, the tag was made of all texts."""

    async def asked(row: Row, completion: str) -> Prompts:
        prompts = await asks({**row, "answer": f"{row['answer']} {SUSPECT}"}, completion)
        return [_with_own_tag(prompt) for prompt in prompts] if tag_of_all else prompts

    return asked


def _with_own_tag(prompt: str) -> str:
    found = re.search(r"carry the tag ([0-9a-f]{12})", prompt)
    assert found is not None
    return prompt.replace(found[1], hashlib.sha256(prompt.encode()).hexdigest()[:12])


@dataclass(frozen=True)
class Comparison:
    """The prompts of a judge in two orders.

    Attributes:
        work: the judge.
        rows: the sample rows.
        question: the column that the policy is asked.
        ours: what is asked in the order that shares more.
        other_name: the other order.
        other: what is asked in it.
        at_least: the smallest ratio of the shares that meets the target.
    """

    work: str
    rows: Sequence[Row]
    question: str
    ours: Asks
    other_name: str
    other: Asks
    at_least: float | None = 1.0


def comparisons() -> list[Comparison]:
    """All judges."""
    published, shared = (
        {"judge_prompt_layout": "published"},
        {"judge_prompt_layout": "shared_first"},
    )
    critique = {"judge_critique_rounds": 1}
    before, first = "published order", "what is shared first"
    baselines = {row["uid"]: row["answer"] for row in sample("arena_hard_baseline")}
    battles = [{**row, "answer": baselines[row["uid"]]} for row in sample("arena_hard")]
    answered = [row for row in sample("aspect_critique") if row.get("question")]
    scored, queries = sample("rubric_absolute"), sample("peer_queries")
    ties = [row for row in sample("pairwise") if row["subset"] == "Ties"]
    one = {"aspects": "correctness"}
    return [
        Comparison(
            f"Arena-Hard, {first}", battles, "prompt", arena(**shared), before, arena(**published)
        ),
        Comparison(
            f"Arena-Hard with critique, {first}",
            battles,
            "prompt",
            arena(**shared, **critique),
            before,
            arena(**published, **critique),
        ),
        Comparison(
            "Arena-Hard, a role token in the baseline, one tag for the group",
            battles,
            "prompt",
            with_suspect(arena(**published), tag_of_all=False),
            "a tag for each completion",
            with_suspect(arena(**published), tag_of_all=True),
        ),
        Comparison(
            f"rubric-absolute, {first}",
            scored,
            "instruction",
            rubric(**shared),
            before,
            rubric(**published),
        ),
        Comparison(
            f"one aspect, {first}",
            answered,
            "question",
            aspects(**one),
            before,
            aspects(**one, **published),
        ),
        Comparison(
            "five aspects, the completion before the aspect",
            answered,
            "question",
            aspects(),
            "the completion last",
            aspects(**shared),
        ),
        Comparison(f"peer score, {first}", queries, "query", peer(), "former order", former_peer()),
        Comparison(
            f"peer score with critique, {first}",
            queries,
            "query",
            peer(**shared, **critique),
            "former and published order",
            former_peer(**critique),
        ),
        Comparison(
            "RewardBench's rating, unchanged", ties, "prompt", rating, "the same", rating, None
        ),
    ]


def sample(name: str) -> list[Row]:
    """The rows of a bundled sample."""
    return [orjson.loads(line) for line in (SAMPLES / f"{name}.jsonl").read_bytes().splitlines()]


def render_completions(question: str, group: int, pieces: int) -> list[str]:
    """What the stand-in's policy says to a question, G times."""
    request = parse_request(
        orjson.dumps(
            {
                "model": "policy",
                "messages": [{"role": "user", "content": question}],
                "n": min(128, group * pieces),
                "temperature": 1,
            }
        )
    )
    texts = make_answers(request)
    return [
        "\n\n".join(texts[(place + group * piece) % len(texts)] for piece in range(pieces))
        for place in range(group)
    ]


async def share(comparison: Comparison, asks: Asks, group: int, pieces: int) -> float:
    """The share of the group's tokens that are shared, over all rows."""
    shared = total = 0
    for row in comparison.rows:
        prompts: list[bytes] = []
        for completion in render_completions(row[comparison.question], group, pieces):
            prompts += [prompt.encode() for prompt in await asks(row, completion)]
        # In order, each prompt shares most with the one before it.
        prompts.sort()
        shared += sum(map(common, prompts, prompts[1:]))
        total += sum(map(len, prompts))
    return shared / total


def common(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


async def measure(group: int, pieces: int) -> list[Measured]:
    """All lines."""
    return [
        Measured(
            "prefix",
            f"{comparison.work}; group of {group}",
            "of the prompt tokens shared",
            await share(comparison, comparison.ours, group, pieces),
            comparison.other_name,
            await share(comparison, comparison.other, group, pieces),
            at_least=comparison.at_least,
        )
        for comparison in comparisons()
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--group", type=int, default=8, help="completions of a prompt (default: %(default)s)"
    )
    parser.add_argument(
        "--pieces", type=int, default=3, help="pieces of a completion (default: %(default)s)"
    )
    results_option(parser)
    options = parser.parse_args()
    report(asyncio.run(measure(options.group, options.pieces)), options.results)


if __name__ == "__main__":
    main()
