"""A scripted judge at an OpenAI-compatible endpoint: the more of one letter, the better.

It is JudgeGym's stand-in (`judgegym.offline`) with another rule. The stand-in finds the judged
texts in the prompts of all judges, and writes the verdict in the form that their parsers read. The
script replaces the merit of a text: the share of the letter among its characters.

The faults that a training run should survive are scripted too. They depend only on the judged
texts, so that a retry gives the same reply, and two runs of one policy get the same verdicts:

* `failures`: the share of judgments without a verdict, whatever the order of the answers; with
  `failures_from`, only among answers of at least that many characters, as if long prompts were too
  much for the judge.
* `position_bias`: added to the letter's share in the answer that is shown first.
* `length_bias`: added to the letter's share in an answer of `LONG` characters; proportionally less
  for a shorter one.
* `phrase`: each character in this text counts as `phrase_weight`: a weakness that can be exploited.
  `letter_weight` is the weight of a character that is the letter; below 1 it leaves room above.
* `noise`: the standard deviation of an error added to the shares, different in each order of the
  answers.
* `jitter`: the same, but different each time that the answers are judged. Of identical texts that
  are judged at the same time, which gets which error depends on the order of arrival.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

from judgegym.judges.config.one_line_parser import OneLineParser
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.judges.core.prompt_format import PromptFormat, StandInPrompt
from judgegym.judges.core.seeding import make_generator
from judgegym.offline import process
from judgegym.offline.answers import BUILT_IN
from judgegym.offline.process import StandInSettings
from judgegym.offline.server import StandInServer

NO_VERDICT = "I am not able to judge this."

LONG = 24
"""The number of characters of the policy's longest answer."""
_BELOW_ONE = 1 - 1e-9  # a merit of 1 would be above the highest score of a scale


def letter_share(text: str, letter: str = "e") -> float:
    """Return the letter's share of a stripped text's characters; 0 for an empty text."""
    text = text.strip().lower()
    if text:
        return text.count(letter) / len(text)
    return 0.0


@dataclass(frozen=True)
class Script:
    """The judge's preference and its faults; a wrong value raises a `ValueError` of one line."""

    letter: str = "e"
    failures: float = 0.0
    failures_from: int = 0
    position_bias: float = 0.0
    length_bias: float = 0.0
    letter_weight: float = 1.0
    phrase: str = ""
    phrase_weight: float = 0.0
    noise: float = 0.0
    jitter: float = 0.0

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
            "jitter",
        ):
            if not 0 <= getattr(self, name) <= 1:
                value = getattr(self, name)
                raise ValueError(f"{name} must be a number from 0 to 1, not {value!r}")

    def fails(self, sections: Mapping[str, str], judged: Mapping[str, str]) -> bool:
        """Return whether the judgment of these texts, in any order, has no verdict."""
        is_long = max(map(len, judged.values())) >= self.failures_from
        case = "\0".join(sorted(sections.values()))
        return is_long and make_generator(0, case, "no verdict").random() < self.failures

    def merits(self, shown: Mapping[str, str], repeat: int = 1) -> dict[str, float]:
        """Return the merits of texts by title; the texts are in the judge's reading order.

        Args:
            shown: the texts by title.
            repeat: how many times these texts were judged, this time included.
        """
        texts = "\0".join(shown.values())
        errors = make_generator(0, texts, "noise")
        jitter = make_generator(repeat, texts, "jitter")
        merits = {
            title: self.merit(text) + errors.gauss(0, self.noise) + jitter.gauss(0, self.jitter)
            for title, text in shown.items()
        }
        if len(merits) > 1:
            merits[next(iter(shown))] += self.position_bias
            return merits
        return {title: min(max(merit, 0.0), _BELOW_ONE) for title, merit in merits.items()}

    def merit(self, text: str) -> float:
        """Return the merit of a text without the judge's error."""
        text = text.strip()
        merit = (
            self.letter_weight * letter_share(text, self.letter)
            + self.length_bias * min(len(text), LONG) / LONG
        )
        if self.phrase and text:
            merit += self.phrase_weight * text.count(self.phrase) * len(self.phrase) / len(text)
        return merit

    def prompts(self) -> list[PromptFormat]:
        """Return the prompt formats of all judges, answered by this script."""
        repeats: Counter[str] = Counter()
        return [self._script_prompt(prompt_format, repeats) for prompt_format in BUILT_IN]

    def _script_prompt(self, prompt_format: PromptFormat, repeats: Counter[str]) -> PromptFormat:
        def reply(shown: StandInPrompt) -> str:
            judged = {
                title: text for title, text in shown.sections.items() if title in shown.merits
            }
            if self.fails(shown.sections, judged):
                return NO_VERDICT
            texts = "\0".join(judged.values())
            repeats[texts] += 1
            merits = self.merits(judged, repeats[texts])
            return prompt_format.reply(
                replace(shown, merits={title: merits[title] for title in shown.merits})
            )

        return replace(prompt_format, reply=reply)


@contextmanager
def serve_judge(script: Script, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve the judge on a thread while the block lasts; yield its URL. Port 0 takes a free one."""
    listener = process.listen(host, port)
    served = BACKGROUND.submit(_serve(script, listener))
    try:
        yield process.make_url(listener)
    finally:
        served.cancel()


async def _serve(script: Script, listener: socket.socket, *, until_signal: bool = False) -> int:
    """Serve until cancelled, or until a signal; return the signal's exit code."""
    exit_codes: asyncio.Queue[int] = asyncio.Queue()
    if until_signal:
        process.stop_on_signals(exit_codes)
    async with StandInServer(StandInSettings(judge_only=True, prompts=script.prompts())).serving(
        listener
    ):
        return await exit_codes.get()


def add_fault_flags(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    """Add the flags of the faults; a prefix of their names avoids clashes with other flags."""
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
        (
            "jitter",
            float,
            "0…1",
            "standard deviation of a further error, another one each time",
        ),
    ):
        shown = f"{description} (default: {getattr(Script(), name)})"
        parser.add_argument(f"--{prefix}{name}", type=kind, metavar=metavar, help=shown)


def read_script(options: argparse.Namespace, prefix: str = "") -> Script:
    """Return the script of a command line; raise the `ValueError` of a wrong value."""
    return replace(Script(), **_read_values(options, prefix))


def list_fault_flags(options: argparse.Namespace, prefix: str = "") -> tuple[str, ...]:
    """Return the fault flags of a command line; raise the `ValueError` of a wrong value."""
    read_script(options, prefix)
    return tuple(f"--{name}={value}" for name, value in _read_values(options, prefix).items())


def _read_values(options: argparse.Namespace, prefix: str) -> dict[str, Any]:
    values = {field.name: getattr(options, prefix + field.name, None) for field in fields(Script)}
    return {name: value for name, value in values.items() if value is not None}


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until stopped, and return the exit code."""
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
        script = read_script(options)
        listener = process.listen("127.0.0.1", options.port)
    except ValueError as error:
        parser.error(str(error))
    except (OSError, OverflowError) as error:
        parser.error(f"cannot listen on --port {options.port}: {error}")
    print(f"listening on {process.make_url(listener)}", flush=True)
    try:
        return asyncio.run(_serve(script, listener, until_signal=True))
    except KeyboardInterrupt:  # before the event loop handles the signal
        return 130


if __name__ == "__main__":
    sys.exit(main())
