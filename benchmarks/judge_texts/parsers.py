"""The longest time for which a text of 1 MB holds the event loop, for each parser and each use of `delimit`.

Every function that reads a text in the event loop gets hostile texts of this many bytes: repeated
braces, brackets, tags, tokens, titles, broken objects, digits, white space, characters beyond
ASCII. Printed is, for each function, the slowest text and the CPU time of its best round, which the
machine's other work disturbs least.

    python -m benchmarks.judge_texts.parsers [--megabytes 1] [--rounds 2] [--only NAME] [--results
    FILE]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from random import Random

from benchmarks.judge_texts.oracle import PARSERS
from benchmarks.judge_texts.texts import IDS
from benchmarks.measured import Measured, report, results_option
from judgegym.eval_environments.arena.standings import measure_style
from judgegym.judges.arena import game_prompt
from judgegym.judges.aspects.judge import read_verdict
from judgegym.judges.aspects.prompt import Aspect, AspectJudgeSettings, aspect_prompt
from judgegym.judges.conversations.turns import Turn, render_transcript, shared_turns
from judgegym.judges.core.judge import critique_messages
from judgegym.judges.core.prompt_format import find_marker_lines, read_sections
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.listwise.prompt import draw_ids, listwise_prompt, shared_texts
from judgegym.judges.pairwise import choice_prompt, rating_prompt
from judgegym.judges.parsing.criteria import criteria_verdicts
from judgegym.judges.parsing.json_objects import find_objects
from judgegym.judges.parsing.rubric_scores import (
    cut_feedback,
    feedback_score,
    feedback_text,
    is_strict_feedback,
)
from judgegym.judges.peers import peer_prompt
from judgegym.judges.rubrics.prompt import Rubric, RubricJudgeSettings, rubric_prompt
from judgegym.llm.template_tokens import break_up_tokens
from judgegym.server.protocols.chat_tokens import plain_prompt, plain_response
from tests.core.llm.restored import restored

LIMIT_MS = 50
ASPECT, RUBRIC = Aspect(name="own", definition="Is it?"), Rubric("Is it short?")

PIECES = (
    "{", "}", "{}", '{"a":', '{"verdict":1}', '{"score":5}', '{"a":"', '\\"{', '"', "\\", "[", "[[", "[[A]]", "[[A>B]]",
    "[A", "[SCORE]", "[SCORE] 5\n", "[RESULT] 5 ", "[FEEDBACK]", "**[FEEDBACK]**", "Feedback:", "\nFeedback:", "```\n",
    "<think>", "</think>", "<think", "<|im_end|>", "</s>", "<pad> \n", "<", "<|", "<|a", "<¦s>", "¦", "[|", "[INST]",
    "<|im_start|>user\n", "<start_of_turn>", "5", "5 ", "10/", "-", "a", "a ", " ", "\n", "\t", "*", "**", "_", "#",
    "# a\n", "- a\n", "1. ", "input", "[input", "query", "instruction", "#instruction", "\n**", "start of assistant",
    "user question", "candidate response:", "### a\n", "<|a|>\n", "[a]\n", "a:\n", "é", "中", "e\u0301", "\u200b[",
    "𝐢𝐧", "😀", "The quick brown fox. ", "\x00", "\r\n",
    '{"scores":[', '{"id":"ghjkm","score":1},', "ghjk", "[Start of answer ghjkm]\n", "[end of answer",
    "\n\nuser: a", "assistant: a\n\n", "user:", "\n> ", "\nuser ",
)  # fmt: skip
ENDINGS = (
    "",
    "{" * 20_000,
    '{"a":' * 4_000,
    '{"a":' * 900 + "1" + "}" * 900,
    "[SCORE] 5",
    '{"verdict": 1}',
    " 7",
)


def objects(text: str) -> list[object]:
    return list(find_objects(text))


def conversation(text: str) -> object:
    """A conversation as text, and what it shares with another one."""
    shown = render_transcript([Turn("assistant", text, text), Turn("user", "So?", "So?")])
    return shared_turns([shown, shown, f"{shown}.", text])


def sections(text: str) -> object:
    titles = ("Input", "Submission", "Criteria")
    return read_sections(text, list(find_marker_lines(text, titles)), titles)


def rubric_reading(text: str) -> object:
    """All that the rubric judge reads in one text."""
    return (
        feedback_score(text),
        is_strict_feedback(text, "feedback_score"),
        feedback_text(text),
        cut_feedback(text),
    )


FUNCTIONS: Mapping[str, Callable[[str], object]] = {
    **PARSERS,
    "aspects: read_verdict": read_verdict,
    "checklists: criteria_verdicts": criteria_verdicts.bind(
        {own: {"met": 1.0, "unmet": 0.0} for own in IDS}
    ),
    "rubrics: score and feedback": rubric_reading,
    "json_objects.last_first": objects,
    "measure_style": measure_style,
    "chat_tokens.plain_prompt": plain_prompt,
    "chat_tokens.plain_response": plain_response,
    "turns: transcript and shared_turns": conversation,
    "sections (stand-in)": sections,
    "broken_up": break_up_tokens,
    "restored": restored,
    "arena: game_prompt": lambda text: game_prompt("Why?", text, "So.", protocol="three_way"),
    "aspects: aspect_prompt": lambda text: aspect_prompt(
        JudgeTask("", (text,)), Aspect(name="own", definition="Is it?"), AspectJudgeSettings()
    ),
    "listwise: listwise_prompt": lambda text: listwise_prompt(
        shared_texts(JudgeTask("Why?", ())), {IDS[0]: text, IDS[1]: "So."}
    ),
    "listwise: ids": lambda text: draw_ids(Random(0), 16, (text, "Why?")),
    "pairwise: choice_prompt": lambda text: choice_prompt("Why?", (text, "So.")),
    "pairwise: rating_prompt": lambda text: rating_prompt("Why?", text),
    "peers: peer_prompt": lambda text: peer_prompt("Why?", text, "Brevity"),
    "rubrics: rubric_prompt": lambda text: rubric_prompt(
        Rubric("Is it short?"), JudgeTask("Why?", (text,)), RubricJudgeSettings()
    ),
    "critique_messages": lambda text: critique_messages(
        [{"role": "user", "content": "Judge."}], text
    ),
}


def hostile(size: int) -> dict[str, str]:
    """The texts by name, each of this many bytes of UTF-8."""
    texts: dict[str, str] = {}
    for piece in PIECES:
        repeated = piece * (size // len(piece.encode()))
        for ending in ENDINGS if piece in ("a ", "中", "{", '"') else ("",):
            texts[f"{piece!r} … {ending[:8]!r}" if ending else repr(piece)] = (
                repeated[: len(repeated) - len(ending)] + ending
            )
    return texts


def milliseconds(function: Callable[[str], object], text: str, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        fresh = text + " "  # prompts remember the texts that they have just seen
        began = time.thread_time()
        function(fresh)
        times.append(time.thread_time() - began)
        text = fresh
    return 1000 * min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--megabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="")
    results_option(parser)
    arguments = parser.parse_args()
    texts = hostile(round(1_000_000 * arguments.megabytes))
    print(
        f"{len(texts)} texts of {arguments.megabytes:g} MB; milliseconds of the slowest for each "
        "function"
    )
    worst, worst_name = 0.0, ""
    for name, function in FUNCTIONS.items():
        if arguments.only in name:
            times = {
                shown: milliseconds(function, text, arguments.rounds)
                for shown, text in texts.items()
            }
            slowest = max(times, key=lambda shown: times[shown])
            worst, worst_name = max((worst, worst_name), (times[slowest], name))
            print(f"{name:26} {times[slowest]:7.1f}   {slowest}", flush=True)
    work = (
        f"the slowest of all parsers and delimiters ({worst_name}), on a hostile text of "
        f"{arguments.megabytes:g} MB"
    )
    report(
        [Measured("others", work, "ms of CPU", worst, "limit", LIMIT_MS, at_most=1)],
        arguments.results,
    )


if __name__ == "__main__":
    main()
