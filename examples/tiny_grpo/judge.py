"""A scripted judge at an OpenAI-compatible endpoint: the more of one letter an answer has, the better it is.

It is this project's stand-in (`judgegym.offline`) with another rule. The stand-in finds the texts
under judgment in the prompts of all judges of this project, and writes the verdict in the form that
their parsers read; what is scripted is
the merit of each text: the share of the letter among its characters, in place of the words.

The faults that a training run should survive are scripted too. All of them are functions of what is
judged, so that
the same judgment is asked for twice in vain, and two runs of one policy get the same verdicts:

* `failures`: this share of the judgments never has a verdict, whatever the order of the answers;
  with `failures_from`, of those of answers that have at least so many characters, as if long
  prompts were too much for the judge.
* `position_bias`: the answer that is shown first is seen with this much more of the letter.
* `length_bias`: an answer of `LONG` characters is seen with this much more of the letter, a shorter
  one with less.
* `phrase`: each character in this text counts as `phrase_weight`, whatever it says: a weakness that
  pays once it is found. `letter_weight` is what a character that is the letter counts; below 1 it
  leaves room above.
* `noise`: shares are seen with an error of this standard deviation, another one in each order of
  the answers.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

from judgegym.judges.config.one_line_parser import OneLineParser
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.judges.core.prompt_format import PromptFormat, ShownPrompt
from judgegym.judges.core.seeding import make_generator
from judgegym.offline import process
from judgegym.offline.answers import BUILT_IN
from judgegym.offline.process import StandInSettings
from judgegym.offline.server import StandInServer

NO_VERDICT = "I am not able to judge this."

LONG = 24
"""The characters of the longest answer that the policy writes."""
_BELOW_ONE = 1 - 1e-9  # a merit of 1 would be above the highest score of a scale


def letter_share(text: str, letter: str = "e") -> float:
    """The share of the letter among the characters of a text, white space around it left out; 0 of no text."""
    text = text.strip().lower()
    return text.count(letter) / len(text) if text else 0.0


@dataclass(frozen=True)
class Script:
    """What the judge likes, and its faults; a `ValueError` of one line names a value that is wrong."""

    letter: str = "e"
    failures: float = 0.0
    failures_from: int = 0
    position_bias: float = 0.0
    length_bias: float = 0.0
    letter_weight: float = 1.0
    phrase: str = ""
    phrase_weight: float = 0.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        if len(self.letter) != 1 or not self.letter.islower():
            raise ValueError(f"letter must be one small letter, not {self.letter!r}")
        if self.failures_from < 0:
            raise ValueError(
                f"failures_from must be a number of characters, not {self.failures_from}"
            )
        for name in (
            "failures",
            "position_bias",
            "length_bias",
            "letter_weight",
            "phrase_weight",
            "noise",
        ):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(
                    f"{name} must be a number from 0 to 1, not {getattr(self, name)!r}"
                )

    def fails(self, sections: Mapping[str, str], judged: Mapping[str, str]) -> bool:
        """Whether a judgment never has a verdict: of these texts about this question, in any order of the texts."""
        is_long = max(map(len, judged.values())) >= self.failures_from
        case = "\0".join(sorted(sections.values()))
        return is_long and make_generator(0, case, "no verdict").random() < self.failures

    def merits(self, shown: Mapping[str, str]) -> dict[str, float]:
        """The merits of the texts, which are given by title in the order in which the judge reads them."""
        errors = make_generator(0, "\0".join(shown.values()), "noise")
        merits = {
            title: self.merit(text) + errors.gauss(0, self.noise) for title, text in shown.items()
        }
        if len(merits) > 1:
            merits[next(iter(shown))] += self.position_bias
            return merits
        return {title: min(max(merit, 0.0), _BELOW_ONE) for title, merit in merits.items()}

    def merit(self, text: str) -> float:
        """The merit of a text without the error of the judge."""
        text = text.strip()
        merit = (
            self.letter_weight * letter_share(text, self.letter)
            + self.length_bias * min(len(text), LONG) / LONG
        )
        if self.phrase and text:
            merit += self.phrase_weight * text.count(self.phrase) * len(self.phrase) / len(text)
        return merit

    def prompts(self) -> list[PromptFormat]:
        """The prompts of this project's judges, answered by this script."""
        return [self._script_prompt(prompt_format) for prompt_format in BUILT_IN]

    def _script_prompt(self, prompt_format: PromptFormat) -> PromptFormat:
        def reply(shown: ShownPrompt) -> str:
            judged = {
                title: text for title, text in shown.sections.items() if title in shown.merits
            }
            if self.fails(shown.sections, judged):
                return NO_VERDICT
            merits = self.merits(judged)
            return prompt_format.reply(
                replace(shown, merits={title: merits[title] for title in shown.merits})
            )

        return replace(prompt_format, reply=reply)


@contextmanager
def serve_judge(script: Script, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve the judge on a thread while the block lasts; its base URL. Port 0 lets the system choose."""
    listener = process.listen(host, port)
    served = BACKGROUND.submit(_serve(script, listener))
    try:
        yield process.make_url(listener)
    finally:
        served.cancel()


async def _serve(script: Script, listener: socket.socket, *, until_signal: bool = False) -> int:
    """Serve until cancelled, or until a signal, whose exit code is returned."""
    exit_codes: asyncio.Queue[int] = asyncio.Queue()
    if until_signal:
        process.stop_on_signals(exit_codes)
    async with StandInServer(StandInSettings(judge_only=True, prompts=script.prompts())).serving(
        listener
    ):
        return await exit_codes.get()


def add_fault_flags(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    """Add the flags of the faults; with a prefix in their names, if the parser has flags of others, too."""
    for name, kind, metavar, description in (
        ("failures", float, "0…1", "share of the judgments that never have a verdict"),
        (
            "failures_from",
            int,
            "N",
            "let judgments fail of answers with at least this many characters",
        ),
        (
            "position_bias",
            float,
            "0…1",
            "how much more of the letter is seen in the answer that is shown first",
        ),
        (
            "length_bias",
            float,
            "0…1",
            f"how much more of the letter is seen in an answer of {LONG} characters",
        ),
        ("letter_weight", float, "0…1", "what a character counts that is the letter"),
        ("phrase", str, "TEXT", "a text that pays, whatever it says"),
        ("phrase_weight", float, "0…1", "what a character counts that is part of the phrase"),
        (
            "noise",
            float,
            "0…1",
            "standard deviation of the error with which a share of the letter is seen",
        ),
    ):
        shown = f"{description} (default: {getattr(Script(), name)})"
        parser.add_argument(f"--{prefix}{name}", type=kind, metavar=metavar, help=shown)


def read_script(options: argparse.Namespace, prefix: str = "") -> Script:
    """The script of a command line; raises the `ValueError` of a wrong value."""
    return replace(Script(), **_read_values(options, prefix))


def list_fault_flags(options: argparse.Namespace, prefix: str = "") -> tuple[str, ...]:
    """The flags that a command line names, as those of this program; raises the `ValueError` of a wrong value."""
    read_script(options, prefix)
    return tuple(f"--{name}={value}" for name, value in _read_values(options, prefix).items())


def _read_values(options: argparse.Namespace, prefix: str) -> dict[str, Any]:
    values = {field.name: getattr(options, prefix + field.name, None) for field in fields(Script)}
    return {name: value for name, value in values.items() if value is not None}


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until stopped; returns the exit code."""
    parser = OneLineParser(
        "python -m examples.tiny_grpo.judge", "Serve a judge that likes one letter."
    )
    parser.add_argument(
        "--port", type=int, default=0, help="port; 0 lets the system choose (default: %(default)s)"
    )
    parser.add_argument(
        "--letter",
        default=Script().letter,
        help="what answers are judged by (default: %(default)s)",
    )
    add_fault_flags(parser)
    options = parser.parse_args(argv)
    try:
        script, listener = read_script(options), process.listen("127.0.0.1", options.port)
    except ValueError as error:
        parser.error(str(error))
    except (OSError, OverflowError) as error:
        parser.error(f"cannot listen on --port {options.port}: {error}")
    print(f"listening on {process.make_url(listener)}", flush=True)
    try:
        return asyncio.run(_serve(script, listener, until_signal=True))
    except KeyboardInterrupt:  # before the event loop took the signal over
        return 130


if __name__ == "__main__":
    sys.exit(main())
