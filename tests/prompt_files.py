"""Prompt files of both shapes, with and without a system message, and with all kinds of scales and verdicts."""

from __future__ import annotations

from collections.abc import Mapping

from judgegym.judges.config.presets import load_yaml
from judgegym.judges.parsing.verdict_parser import VerdictParser
from judgegym.judges.prompt_files.file import PromptFile
from judgegym.judges.prompt_files.verdicts import reply_parser

GRADE = """\
prompt: |-
  Grade the answer. Reply with your reasons, then the grade in double brackets: [[good]], [[fair]] or [[bad]].

  <|Question|>
  {prompt}

  <|Policy|>
  {context}

  <|Answer|>
  {response}
  <|End of Answer|>
scale: {bad: 0.0, fair: 0.4, good: 1.0}
verdict: {within: brackets}
optional: [context]
"""
YES_NO = """\
system: Be strict.
prompt: |
  Does the response answer the question? Reply with a JSON object {"why": "...", "answers": "yes" or "no"}.

  Question: {prompt}
  Response: {response}
scale: yes/no
verdict: {field: answers}
"""
SCORE = """\
prompt: |-
  ### Instruction

  {prompt}

  ### Score Rubric

  {rubric}

  ### Response To Evaluate

  {response}

  ---

  Score the response. End with SCORE: and a number from 1 to 5.
scale: [1, 5]
verdict: {after: "SCORE:"}
"""
LEVEL = """\
system: You know the subject.
prompt: |-
  [Reference]
  {reference}

  [Submission]
  {response}

  [Instructions]
  Compare the two. End with a line "Final level:" and poor, good or very good.
scale: {poor: 0.0, good: 0.5, very good: 1.0}
verdict: {after: "Final level:"}
"""
POINTS = """\
system: You count points.
prompt: |-
  # Task
  Give 0 to 10 points. Reply with a JSON object that ends with "points".

  [Assignment]
  {prompt}

  {response}
scale: [0, 10]
verdict: {field: points}
"""
FILES: Mapping[str, str] = {
    "grade": GRADE,
    "yes_no": YES_NO,
    "score": SCORE,
    "level": LEVEL,
    "points": POINTS,
}


def prompt_file(name: str) -> PromptFile:
    """One of the files."""
    return PromptFile.model_validate(load_yaml(FILES[name], names_as_written=True))


def _parser(name: str) -> VerdictParser[[], str]:
    found = prompt_file(name)
    return reply_parser(found.verdict, found.labels, found.template.titles)


PARSERS: Mapping[str, VerdictParser[[], str]] = {f"prompt_{name}": _parser(name) for name in FILES}
"""Of their verdicts."""
