"""The judges under test: what a user writes, and what their model replies about a right and a wrong response."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judgegym.judges.config import composed
from judgegym.judges.scorers import own_kinds, registry
from tests import checklists
from tests.scripted import Json, Reply, Script, completion

RIGHT, WRONG = "Delivery takes three days.", "No idea, sorry."
"""The responses to the two questions, of which each judge gives the first one the best score, the other the worst."""
QUESTIONS = {"How long does delivery take?": RIGHT, "May I return a hat?": WRONG}
FORMS: Mapping[str, Mapping[str, Any]] = {
    "votes": {"samples_per_item": 2},
    "critique": {"judge_critique_rounds": 1},
    "structured": {"judge_output": "json_schema"},
    "logprobs": {"weighting": "logprobs"},
}
"""Settings with which judges are asked in another way."""


@dataclass(frozen=True)
class DoorJudge:
    """A judge under test.

    Attributes:
        name: of the column.
        files: what stands in its folder.
        judge: what a user gives as the judge, made of the folder.
        marker: words that stand in each of its prompts, and in no other judge's.
        replies: what its model says of the right and of the wrong response, by the form in which it
            is asked.
        broken: the same files with a mistake, and the facts that its message names; the first comes
            after the folder if it is not installed.
        forms: the names of `FORMS` that it has.
        labels: what labellers of its runs are asked for, with the values of the labels; empty if
            its runs cannot be labelled.
        gold: labels of the right and of the wrong response in its own terms.
        kept_in: the setting that keeps what its files hold, so that a run does not go on with other
            files; empty if none does.
        is_installed: its folder is one of `sys.path`.
        refused: the doors that are closed to it.
        in_gate: the doors that are tried in the gate; empty for all.
        sent: fields of each of its requests.
    """

    name: str
    files: Mapping[str, str]
    judge: Callable[[Path], str]
    marker: str
    replies: Callable[[Json, bool], Reply | str]
    broken: tuple[Mapping[str, str], tuple[str, ...]]
    forms: tuple[str, ...] = ()
    labels: Mapping[str, float] = field(default_factory=lambda: {"yes": 1.0, "no": 0.0})
    gold: tuple[object, object] = (1, 0)
    kept_in: str = "judge_prompt"
    is_installed: bool = False
    refused: tuple[str, ...] = ()
    in_gate: tuple[str, ...] = ()
    sent: Mapping[str, object] = field(default_factory=dict)

    def written(self, folder: Path, *, is_broken: bool = False) -> str:
        """Write the files; return what names the judge."""
        folder.mkdir(exist_ok=True)
        for name, text in (self.broken[0] if is_broken else self.files).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        return self.judge(folder)

    def rewritten(self, folder: Path) -> None:
        """Write another prompt into its first file, as for another process."""
        name, text = next(iter(self.files.items()))
        (folder / name).write_text(
            text.replace(self.marker, f"Strictly, {self.marker}"), encoding="utf-8"
        )
        forget_kinds()

    def script(self) -> Script:
        """The endpoint of all models: of this judge, of judges by a rubric, and of the policy."""

        def answer(request: Json, number: int) -> Reply | str:
            shown = "\n".join(str(message["content"]) for message in request["messages"])
            if self.marker in shown:
                return self.replies(request, WRONG not in shown)
            if "### Score Rubric" in shown:
                return f"[FEEDBACK] Seen. [SCORE] {1 if WRONG in shown else 5}"
            text = next(text for question, text in QUESTIONS.items() if question in shown)
            return Reply(
                body=completion(
                    text, *(f"{text} {place}" for place in range(1, request.get("n", 1)))
                )
            )

        return answer


def _in_form(request: Json, field: str, verdict: object, text: str) -> Reply | str:
    """A verdict as the request asks for it: as an object of a schema, with probabilities of its digit, or as text."""
    said = (
        json.dumps({"explanation": "Seen.", field: verdict})
        if "response_format" in request
        else text
    )
    choices = [said] * request.get("n", 1)
    body = completion(*choices)
    for choice in body["choices"] if request.get("logprobs") else ():
        content = [
            {"token": sign, "logprob": 0.0, "top_logprobs": [{"token": sign, "logprob": 0.0}]}
            for sign in said
        ]
        choice["logprobs"] = {"content": content}
    return Reply(body=body)


_LABELS = """\
prompt: |-
  Grade the answer for a customer of the hat shop. Give your reasons, then the grade: [[good]], [[fair]] or [[bad]].

  [Question]
  {prompt}

  [Policy of the shop]
  {context}

  [Answer]
  {response}
  [End of Answer]
scale: {bad: 0.0, fair: 0.4, good: 1.0}
verdict: {within: brackets}
optional: [context]
"""
_SCALE = """\
system: You work for the hat shop.
prompt: |-
  Score the answer from 1 to 5. Reply with a JSON object {"why": "...", "grade": 4}.

  Question: {prompt}
  Answer: {response}
scale: [1, 5]
verdict: {field: grade}
"""


def _label(request: Json, is_right: bool) -> Reply | str:
    label = "good" if is_right else "bad"
    return _in_form(request, "verdict", label, f"Seen. [[{label}]]")


def _number(request: Json, is_right: bool) -> Reply | str:
    number = 5 if is_right else 1
    return _in_form(request, "grade", number, json.dumps({"why": "Seen.", "grade": number}))


_DIGEST = "0" * 64
_EVIDENCE = f"""\
evidence:
- by: audit
  date: '2026-11-29'
  rows: 40
  data: sha256:{_DIGEST}
  judge: sha256:{_DIGEST}
  model: hat-judge
  figures:
    accuracy: {{value: 0.9, low: 0.8, high: 0.95}}
"""
_CARD = f"""\
prompt: |-
  Tell whether the answer helps a friend of the hat shop. Give your reasons, then [[yes]] or [[no]].

  [Question]
  {{prompt}}

  [Answer]
  {{response}}
scale: yes/no
verdict: {{within: brackets}}
judge:
  samples_per_item: 1
  endpoint: {{model: hat-judge, temperature: 0.375}}
{_EVIDENCE}"""
_CARD_OF_A_KIND = f"""\
judge:
  kind: checklist
  formula: all
  endpoint: {{model: hat-judge, temperature: 0.375}}
  criteria: [Names the days as a neighbour of the hat shop would.]
{_EVIDENCE}"""


def _polite(request: Json, is_right: bool) -> Reply | str:
    label = "yes" if is_right else "no"
    return _in_form(request, "verdict", label, f"Seen. [[{label}]]")


def _days(request: Json, is_right: bool) -> Reply | str:
    verdict = "met" if is_right else "unmet"
    return checklists.saying(lambda text, submission: verdict)(request, 0)


OTHER_PROMPT_FILE = (
    "prompt: |-\n  Fine?\n  Answer: {response}\nscale: yes/no\nverdict: {after: 'FINE:'}\n"
)
PROMPT_FILES = (
    DoorJudge(
        "labels",
        {"grade.yaml": _LABELS},
        lambda folder: str(folder / "grade.yaml"),
        "customer of the hat shop",
        _label,
        (
            {"grade.yaml": _LABELS.replace("{response}", "the response")},
            ("grade.yaml:2: ", "no {response}"),
        ),
        ("votes", "critique", "structured"),
        {"bad": 0.0, "fair": 0.4, "good": 1.0},
        ("good", "bad"),
    ),
    DoorJudge(
        "scale",
        {"shop.score.yml": _SCALE},
        lambda folder: str(folder / "shop.score.yml"),
        "You work for the hat shop.",
        _number,
        (
            {"shop.score.yml": _SCALE.replace("[1, 5]", "[5, 5]")},
            ("shop.score.yml:7: scale: ", "found 5 and 5"),
        ),
        ("votes", "critique", "structured", "logprobs"),
        {"1": 0.0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1.0},
        (5, 1),
    ),
)
CARDS = (
    DoorJudge(
        "card",
        {"card.yaml": _CARD},
        lambda folder: str(folder / "card.yaml"),
        "friend of the hat shop",
        _polite,
        (
            {"card.yaml": _CARD.replace("samples_per_item", "samples_of_item")},
            ("card.yaml: ", "samples_of_item"),
        ),
        ("votes", "critique", "structured"),
        gold=("yes", "no"),
        sent={"model": "hat-judge", "temperature": 0.375},
    ),
    DoorJudge(
        "kind-card",
        {"card.yaml": _CARD_OF_A_KIND},
        lambda folder: str(folder / "card.yaml"),
        "neighbour of the hat shop",
        _days,
        (
            {"card.yaml": _CARD_OF_A_KIND.replace("formula: all", "formulas: all")},
            ("card.yaml: ", "formulas"),
        ),
        labels={},
        kept_in="criteria",
        sent={"model": "hat-judge", "temperature": 0.375},
    ),
)
_CODE = """\
from judgegym.judges import (
    JudgeDefinition, JudgeSettings, Lookalikes, MessageTemplate, ModelJudge, ParsedVerdict, PromptFormat, Question,
    setting, verdict_parser,
)

TEMPLATE = MessageTemplate(
    ("Are you glad as a guest of the hat shop? End with GLAD: yes or GLAD: no.", "ASKED{tag}:\\n{prompt}",
     "CONTEXT{tag}:\\n{context}", "TOLD{tag}:\\n{response}"),
    Lookalikes("ASKED:", "CONTEXT:", "TOLD:", "GLAD:"),
)


class HatSettings(JudgeSettings):
    hat_size: int = setting(7, "The size of the hat.", common=True, ge=1)


@verdict_parser
def is_glad(own):
    words = own.rpartition("GLAD: ")[2]
    return ParsedVerdict(words == "yes", (len(own) - len(words), len(own))) if words in ("yes", "no") else None


class HatJudge(ModelJudge):
    def questions(self, task):
        texts = {"prompt": task.prompt, "context": task.context}
        return [Question("glad", TEMPLATE.fill(texts, {"response": task.response}), is_glad)]


PROMPT = PromptFormat(
    ("ASKED", "TOLD"), ("TOLD",), lambda shown: f"GLAD: {'yes' if shown.merit > 0.5 else 'no'}", ("CONTEXT",)
)
JUDGE = JudgeDefinition(
    HatSettings, "gladness", HatJudge, (PROMPT,), frozenset(("context",)), unused_settings=frozenset(("judge_output",))
)
"""
_BROKEN = "raise ValueError('no hats today')\n"
_DISTRIBUTION = {
    "hat_plugin-0.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: hat-plugin\nVersion: 0.1\n",
    "hat_plugin-0.1.dist-info/entry_points.txt": "[judgegym.judges]\nhats = hat_plugin:JUDGE\n",
}


def _glad(request: Json, is_right: bool) -> Reply | str:
    return f"Seen.\nGLAD: {'yes' if is_right else 'no'}"


def _of_code(
    name: str, files: Mapping[str, str], judge: Callable[[Path], str], said: str
) -> DoorJudge:
    """The judge of the code, whose first file it is."""
    (module, _), *others = files.items()
    broken = {module: _BROKEN, **dict(others)}
    facts = (f"{said}: ", f"{module}, line 1: ValueError: no hats today")
    is_installed = bool(others)
    return DoorJudge(
        name,
        files,
        judge,
        "guest of the hat shop",
        _glad,
        (broken, facts),
        ("critique",),
        kept_in="" if is_installed else "judge_digest",
        is_installed=is_installed,
        refused=() if is_installed else ("replay",),
        in_gate=("score", "jury-member", "own-environment", "mount-native", "trl", "ray-actor"),
    )


PYTHON_JUDGES = (
    _of_code("python", {"hats.py": _CODE}, lambda folder: f"{folder / 'hats.py'}:JUDGE", "hats.py"),
    _of_code(
        "plugin",
        {"hat_plugin.py": _CODE, **_DISTRIBUTION},
        lambda folder: "hats",
        "hats of hat-plugin 0.1",
    ),
)
"""A judge in a file of its own, and one of an installed package."""


def forget_kinds() -> None:
    """Forget the kinds that are not built in, as another process knows none."""
    own_kinds._files.clear()
    own_kinds._refusals.clear()
    registry._loaded.clear()
    composed._compose.cache_clear()
    sys.modules.pop("hat_plugin", None)


JUDGES = (*PROMPT_FILES, *CARDS, *PYTHON_JUDGES)
"""The columns of the table."""
