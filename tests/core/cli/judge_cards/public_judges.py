"""Judges of six formats, in words of our own, and how each format reads what a judge says.

The readings are written from the formats' documentation, apart from the importers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests import checklists
from tests.scripted import Json

Row = Mapping[str, Any]
Reading = Callable[[Row], float | None]
ROWS: Sequence[Row] = tuple(
    {"prompt": f"Question {number}?", "response": f"Text-{number}: {text}", "reference": gold}
    for number, (text, gold) in enumerate(
        [
            ("Paris", "Text-0: Paris"),
            ("in Rome.", "Rome"),
            ('{"city": "Oslo"}', "oslo"),
            ("BERN", "Bern"),
            ("no idea", "Kyiv"),
            ("Riga, or Vilnius", "vilnius"),
            ("Text-6", "TEXT-6"),
            ("Prague", "Lima"),
        ]
    )
)
_TEXT = re.compile(r"Text-\d+: .*")


@dataclass(frozen=True)
class PublicJudge:
    """A judge's file, and how its format reads a row.

    Attributes:
        name: of the test. content: of the file, JSON if it is no text.
        reading: the format's score; `None` for a reply that it does not read.
        options: what the judge's model may say, by what it is asked about.
        refused: a fact of the message if nothing is carried.
        listed: a fact of the notes on what is not carried.
        span: the lowest and the highest score of the format, which are 0 and 1 here.
        words: further arguments of the import. file: the file's name.
        more: further files by name.
    """

    name: str
    content: Any
    reading: Reading | None = None
    options: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    refused: str = ""
    listed: str = ""
    span: tuple[float, float] = (0.0, 1.0)
    words: tuple[str, ...] = ()
    file: str = "judge.json"
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The file's text."""
        return self.content if isinstance(self.content, str) else json.dumps(self.content)

    def reply(self, request: Json, number: int) -> str:
        """What the model says, which depends on the response and on what it is asked about."""
        shown = "\n".join(str(message["content"]) for message in request["messages"])
        match = _TEXT.search(shown)
        assert match is not None, shown
        response = match[0]
        if "criterion" in self.options:
            return checklists.saying(lambda text, submission: self._say(response, text))(
                request, number
            )
        about = next(name for name in self.options if f"About {name}" in shown)
        choice = choose(response, about, self.options[about])
        if "response_format" in request:
            name = "score" if isinstance(choice, int) else "label"
            return json.dumps({"explanation": "Seen.", name: choice})
        return f"Seen. {choice}"

    def _say(self, response: str, shown: str) -> Any:
        """What the model says about a criterion; its options stand below its text."""
        text = shown.partition("\n")[0]
        return choose(response, text, self.options.get(text, self.options["criterion"]))


def choose(response: str, about: str, options: Sequence[Any]) -> Any:
    """What the model says about a response, as if it were drawn."""
    digest = hashlib.sha256(f"{response}|{about}".encode()).digest()
    return options[digest[0] % len(options)]


# OpenAI's graders
_PASSING = ("polite", "kind")


def _label(
    name: str, labels: Sequence[str], passing: Sequence[str], prompt: str = "", **more: Any
) -> PublicJudge:
    text = prompt or f"About {name}\n\n{{{{ sample.output_text }}}}"
    content = {
        "type": "label_model",
        "name": name,
        "model": "gpt-6-luna",
        "input": [{"role": "user", "content": text}],
        "labels": [*labels],
        "passing_labels": [*passing],
        **more,
    }

    def read(row: Row) -> float:
        return float(choose(row["response"], name, labels) in passing)

    return PublicJudge(f"label-{name}", content, read, {name: labels})


def _score(
    name: str, low: float = 0, high: float = 1, prompt: str = "", **more: Any
) -> PublicJudge:
    text = prompt or f"About {name}\n\n{{{{sample.output_text}}}}"
    content = {
        "type": "score_model",
        "name": name,
        "model": "gpt-6-luna",
        "input": [{"role": "user", "content": text}],
        "range": [low, high],
        **more,
    }
    levels = [*range(int(low), int(high) + 1)]

    def read(row: Row) -> float:
        return float(choose(row["response"], name, levels))

    return PublicJudge(f"score-{name}", content, read, {name: levels}, span=(low, high))


_COMPARE: Mapping[str, Callable[[str, str], bool]] = {
    "eq": lambda text, gold: text == gold,
    "ne": lambda text, gold: text != gold,
    "like": lambda text, gold: gold in text,
    "ilike": lambda text, gold: gold.lower() in text.lower(),
}


def _check(operation: str, text: str = "{{ sample.output_text }}") -> PublicJudge:
    content = {
        "type": "string_check",
        "name": operation,
        "input": text,
        "reference": "{{ item.reference }}",
        "operation": operation,
    }

    def read(row: Row) -> float:
        shown = text.replace("{{ sample.output_text }}", row["response"])
        return float(_COMPARE[operation](shown, row["reference"]))

    return PublicJudge(f"check-{operation}", content, read)


def _python(name: str, source: str, *words: str, column: str = "reference") -> PublicJudge:
    def read(row: Row) -> float:
        scope: dict[str, Any] = {}
        exec(source, scope)
        try:
            output = json.loads(row["response"])
        except ValueError:
            output = None
        sample = {"output_text": row["response"], "output_json": output}
        return float(scope["grade"](sample, {column: row["reference"]}))

    content = {"type": "python", "source": source}
    return PublicJudge(f"python-{name}", content, read, words=words)


def _multi(name: str, formula: str, *judges: PublicJudge, **facts: str) -> PublicJudge:
    graders = {judge.content["name"]: judge for judge in judges}
    content = {
        "type": "multi",
        "name": name,
        "graders": {key: judge.content for key, judge in graders.items()},
        "calculate_output": formula,
    }

    def read(row: Row) -> float:
        scores: dict[str, Any] = {"min": min, "max": max}
        for key, judge in graders.items():
            assert judge.reading is not None
            scores[key] = judge.reading(row)
        return float(eval(formula, scores))

    options: dict[str, Sequence[Any]] = {}
    for judge in judges:
        options.update(judge.options)
    reading = None if "refused" in facts else read
    return PublicJudge(f"multi-{name}", content, reading, options, **facts)  # type: ignore[arg-type]


_POLITE = _label("polite", ["polite", "rude"], ["polite"])
_TONE = _label("tone", ["kind", "cold", "polite"], _PASSING)
_FIVE, _TEN = _score("depth", 1, 5), _score("style", 0, 10)
_SENTENCE = "About city: does {{ sample.output_text }} answer {{ item.question }}?"
_LAYERS = [
    {"role": "developer", "content": "Be strict."},
    {"role": "user", "content": "About layers\n\n{{ item.prompt }}"},
    {"role": "user", "content": [{"type": "input_text", "text": "{{ sample.output_text }}"}]},
]
_PICTURE = [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]
_CONTAINS = "def grade(sample, item):\n    return float(item['reference'] in sample['output_text'])"
_JSON = "def grade(sample, item):\n    return 1.0 if sample['output_json'] else 0.25"
_SHARE = """\
import re


def count(text):
    return len(re.findall('[a-z]', text))


def grade(sample, item):
    return min(1.0, count(sample['output_text']) / 20)
"""
_GOLD = "def grade(sample, item):\n    return item['gold'].lower() == sample['output_text'].lower()"
_SIMILARITY = {
    "type": "text_similarity",
    "name": "near",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.reference }}",
}
OPENAI = (
    *map(_check, _COMPARE),
    _check("like", "Reply: {{ sample.output_text }}!"),
    _POLITE,
    _TONE,
    _label("three", ["a", "b", "c"], ["b"], sampling_params={"temperature": 0.5, "top_p": 0.9}),
    _label("city", ["yes", "no"], ["yes"], _SENTENCE),
    _label("layers", ["good", "bad"], ["good"], input=_LAYERS),
    PublicJudge(
        "label-picture",
        {**_POLITE.content, "input": _PICTURE},
        refused="input_image",
    ),
    _FIVE,
    _TEN,
    _score("wide", -2, 2),
    PublicJudge("score-default", {**_FIVE.content, "range": [0, 1]}, refused="range: [0, 1]"),
    _python("contains", _CONTAINS),
    _python("json", _JSON),
    _python("share", _SHARE),
    _python("gold", _GOLD, "--field", "gold=reference", column="gold"),
    PublicJudge("near-bleu", {**_SIMILARITY, "evaluation_metric": "bleu"}, refused="bleu"),
    PublicJudge("near-fuzzy", {**_SIMILARITY, "evaluation_metric": "fuzzy_match"}, refused="fuzzy"),
    PublicJudge(
        "check-json",
        {**_check("eq").content, "input": "{{ sample.output_json.city }}"},
        refused="output_json.city",
    ),
    _multi("mean", "(polite + tone) / 2", _POLITE, _TONE),
    _multi("weights", "0.7 * polite + 0.3 * style / 10", _POLITE, _TEN),
    _multi("checks", "eq * 0.5 + ilike * 0.5", _check("eq"), _check("ilike")),
    _multi("product", "polite * style / 10", _POLITE, _TEN),
    _multi("least", "min(polite, (depth - 1) / 4)", _POLITE, _FIVE),
    _multi("sum", "polite + tone", _POLITE, _TONE, refused="calculate_output"),
    _multi("clip", "max(polite, style)", _POLITE, _TEN, refused="calculate_output"),
)

# harbor-rewardkit
_KIT = '[judge]\njudge = "gpt-6-luna"\n'
_TEXTS = ("Names the city.", "Stays calm.", "Cites a map.")
_WORDS = ("met", "unmet")


def _criterion(text: str, **more: Any) -> str:
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in more.items()]
    return f"[[criterion]]\ndescription = {json.dumps(text)}\n{''.join(lines)}"


def _kit_value(row: Row, text: str, **more: Any) -> float:
    """The value of a criterion from 0 to 1."""
    kind = more.get("type", "binary")
    levels: Sequence[str] = {
        "binary": ["unmet", "met"],
        "likert": [*map(str, range(1, more.get("points", 5) + 1))],
        "numeric": [*map(str, range(int(more.get("min", 0)), int(more.get("max", 1)) + 1))],
        "rubric": more.get("levels", ()),
    }[kind]
    options = _WORDS if kind == "binary" else levels
    value = levels.index(choose(row["response"], text, options)) / (len(levels) - 1)
    return 1.0 - value if more.get("negate") else value


def _aggregate(aggregation: str, terms: Sequence[tuple[float, float, bool]]) -> float:
    """The score of values with their weights, and whether they are optional."""
    if aggregation == "all-pass":
        return float(all(value >= 1 for value, _, _ in terms))
    if aggregation == "required-pass":
        return float(all(value >= 1 for value, _, optional in terms if not optional))
    total = sum(value * weight for value, weight, _ in terms)
    return total / (1.0 if aggregation == "weighted-sum" else sum(weight for _, weight, _ in terms))


def _kit(
    name: str,
    *criteria: Mapping[str, Any],
    aggregation: str = "weighted-mean",
    table: str = "",
    refused: str = "",
    listed: str = "",
) -> PublicJudge:
    named = [{"text": text, **criterion} for text, criterion in zip(_TEXTS, criteria, strict=False)]
    scoring = f'[scoring]\naggregation = "{aggregation}"\n'
    content = _KIT + table + "".join(_criterion(**criterion) for criterion in named) + scoring

    def read(row: Row) -> float:
        terms = [
            (
                _kit_value(row, **criterion),
                criterion.get("weight", 1.0),
                bool(criterion.get("optional")),
            )
            for criterion in named
        ]
        return _aggregate(aggregation.replace("_", "-"), terms)

    options: dict[str, Sequence[Any]] = {"criterion": _WORDS}
    for criterion in [] if refused else named:
        kind = criterion.get("type")
        if kind == "likert":
            options[criterion["text"]] = [
                *map(str, range(1, int(str(criterion.get("points", 5))) + 1))
            ]
        elif kind == "numeric":
            low, high = int(str(criterion.get("min", 0))), int(str(criterion.get("max", 1)))
            options[criterion["text"]] = [*map(str, range(low, high + 1))]
        elif kind == "rubric":
            options[criterion["text"]] = criterion["levels"]  # type: ignore[assignment]
    return PublicJudge(
        f"kit-{name}",
        content,
        None if refused else read,
        options,
        refused,
        listed,
        file="tone.toml",
    )


_LEVELS = {"type": "rubric", "levels": ["rude", "plain", "warm"]}
_INNER = _kit("inner", {}, {"weight": 3})
_OUTER = _kit("outer", {"text": _TEXTS[2], "type": "likert", "points": 3}, {})
REWARDKIT = (
    _kit("binary", {}, {"weight": 2}),
    _kit("negated", {}, {"negate": True, "weight": 3}, {}),
    _kit("likert", {"type": "likert"}, {"type": "likert", "points": 3, "weight": 0.5}),
    _kit("numeric", {"type": "numeric", "min": 0, "max": 10}, listed="criterion[0]"),
    _kit("levels", _LEVELS, {}),
    _kit("all", {}, {"weight": 0.5}, aggregation="all-pass"),
    _kit("all-levels", _LEVELS, {}, aggregation="all_pass"),
    _kit("required", {}, {"optional": True}, aggregation="required-pass"),
    _kit("sum", {"weight": 0.25}, {"weight": 0.75}, aggregation="weighted-sum"),
    _kit("any", {}, {}, aggregation="any-pass", refused="any-pass"),
    _kit("threshold", {}, {}, aggregation="threshold", refused="threshold"),
    _kit("share", {"type": "numeric", "min": 0.0, "max": 1.0}, refused="numeric"),
    _kit("files", {}, table='files = ["/app/a.txt"]\ntimeout = 60\n', listed="judge.files"),
    PublicJudge(
        "kit-agent", '[judge]\njudge = "codex"\n' + _criterion("Runs."), refused="codex",
        file="agent.toml",
    ),
    PublicJudge(
        "kit-reward",
        '[[reward]]\nname = "reward"\nweights = {inner = 3}\n',
        lambda row: (3 * _INNER.reading(row) + _OUTER.reading(row)) / 4,  # type: ignore[misc,operator]
        _OUTER.options,
        file="reward.toml",
        more={"inner.toml": _INNER.text, "outer.toml": _OUTER.text},
    ),
)  # fmt: skip

# verifiers
_PARSED = (
    "About {name}\n\nQ: {{question}}\n\nGold: {{answer}}\n\nReply: {{response}}\n\nEnd so: {end}"
)


def _parsed(
    name: str, replies: Mapping[str, float], scale: Any, verdict: Mapping[str, str]
) -> PublicJudge:
    """A prompt whose `parse` gives these numbers, with the scale and verdict that its user adds."""
    content = {
        "prompt": _PARSED.format(name=name, end=next(iter(replies))),
        "scale": scale,
        "verdict": verdict,
    }
    replied = {name: [*replies]}
    return PublicJudge(
        f"parse-{name}",
        content,
        lambda row: replies[choose(row["response"], name, [*replies])],
        replied,
    )


def _ranked(name: str, *criteria: Mapping[str, Any], **more: Any) -> PublicJudge:
    named = [
        {"name": f"c{place}", "text": text, **criterion}
        for place, (text, criterion) in enumerate(zip(_TEXTS, criteria, strict=False))
    ]
    weights = more.get("weights", {})

    def weigh(criterion: Mapping[str, Any]) -> float:
        weight: float = weights.get(criterion["name"], criterion.get("weight", 1.0))
        return weight

    def rank(row: Row, criterion: Mapping[str, Any]) -> float:
        choices = criterion.get("choices", ["unmet", "met"])
        options = criterion.get("choices", _WORDS)
        place: int = choices.index(choose(row["response"], criterion["text"], options))
        return place / (len(choices) - 1)

    def read(row: Row) -> float:
        total = sum(map(weigh, named))
        return sum(weigh(criterion) * rank(row, criterion) for criterion in named) / total

    options: dict[str, Sequence[Any]] = {"criterion": _WORDS}
    for criterion in named:
        if "choices" in criterion:
            options[criterion["text"]] = criterion["choices"]
    content = {"id": "rubric", "path": "criteria.json", **more}
    return PublicJudge(
        f"ranked-{name}",
        content,
        read,
        options,
        more={"criteria.json": json.dumps({"criteria": named})},
    )


VERIFIERS = (
    _parsed("correct", {"VERDICT: yes": 1.0, "VERDICT: no": 0.0}, "yes/no", {"after": "VERDICT:"}),
    _parsed("grade", {"[[A]]": 1.0, "[[B]]": 0.4}, {"A": 1.0, "B": 0.4}, {"within": "brackets"}),
    _parsed(
        "points",
        {f"SCORE: {point}": point / 4 for point in range(5)},
        [0, 4],
        {"after": "SCORE:"},
    ),
    PublicJudge("parse-alone", {"prompt": _PARSED.format(name="x", end="")}, refused="parse"),
    _ranked("binary", {}, {"weight": 2}),
    _ranked("choices", {"choices": ["none", "some", "all"]}, {}),
    _ranked("overridden", {}, {"weight": 5}, weights={"c1": 0.5}),
    PublicJudge("decision", {"id": "decision", "levels": 3}, refused="decision"),
    PublicJudge("reference", {"id": "reference"}, refused="reference"),
)

# autorubric
_NONE = "cannot_assess"


def _auto(name: str, content: Any, *criteria: Mapping[str, Any], **facts: str) -> PublicJudge:
    options: dict[str, Sequence[Any]] = {"criterion": (*_WORDS, _NONE)}
    values: dict[str, Mapping[str, float]] = {}
    for criterion in criteria:
        text = criterion["requirement"]
        values[text] = {"met": 1.0, "unmet": 0.0}
        if "options" in criterion:
            values[text] = {option["label"]: option["value"] for option in criterion["options"]}
            options[text] = [*values[text]]

    def read(row: Row) -> float | None:
        total = positive = negative = 0.0
        for criterion in criteria:
            text, weight = criterion["requirement"], criterion.get("weight", 10.0)
            label = choose(row["response"], text, options.get(text, options["criterion"]))
            if label == _NONE:
                continue
            total += values[text][label] * weight
            positive += max(weight, 0.0)
            negative += max(-weight, 0.0)
        if positive:
            return max(0.0, min(1.0, total / positive))
        return max(0.0, min(1.0, 1.0 + total / negative)) if negative else None

    reading = None if "refused" in facts else read
    return PublicJudge(f"auto-{name}", content, reading, options, **facts)  # type: ignore[arg-type]


_PLAIN = [{"requirement": text} for text in _TEXTS]
_WEIGHED = [{"name": f"w{place}", "requirement": text, "weight": weight}
            for place, (text, weight) in enumerate(zip(_TEXTS, (5, 3.5, -4), strict=True))]  # fmt: skip
_ONLY_BAD = [{"requirement": text, "weight": -2} for text in _TEXTS[:2]]
_SHADES = {"poor": 0.0, "good": 0.6, "best": 1.0}
_SCALE = [{"label": label, "value": value} for label, value in _SHADES.items()]
_CHOSEN = [{"requirement": "How clear is it?", "options": _SCALE}, _PLAIN[0]]
_NOT_APPLICABLE = [*_SCALE, {"label": "N/A", "value": 0.0, "na": True}]
AUTORUBRIC = (
    _auto("plain", _PLAIN, *_PLAIN),
    _auto("weighed", {"criteria": _WEIGHED}, *_WEIGHED),
    _auto("bad", {"rubric": _ONLY_BAD}, *_ONLY_BAD),
    _auto("options", _CHOSEN, *_CHOSEN),
    _auto("sections", {"sections": [{"name": "a", "criteria": _PLAIN[:2]}, {"name": "b", "criteria": _CHOSEN[:1]}]},
          *_PLAIN[:2], _CHOSEN[0]),
    _auto("guided", {"criteria": _PLAIN, "guidelines": "Read twice."}, *_PLAIN, listed="guidelines"),
    _auto("not-applicable", [{**_CHOSEN[0], "options": _NOT_APPLICABLE}], refused="N/A"),
)  # fmt: skip


# rows with criteria
def _rows(
    name: str, column: str, criteria: Sequence[Mapping[str, Any]], reading: Reading, listed: str
) -> PublicJudge:
    content = [{**row, column: [*criteria]} for row in ROWS]
    return PublicJudge(f"rows-{name}", content, reading, {"criterion": _WORDS}, listed=listed)


_HEALTH = [{"criterion": text, "points": points, "tags": ["axis:x"]}
           for text, points in zip(_TEXTS, (7, 2, -5), strict=True)]  # fmt: skip
_RAR = [{"title": f"t{place}", "description": text, "weight": weight}
        for place, (text, weight) in enumerate(zip(_TEXTS, (5, 3, 1), strict=True))]  # fmt: skip


def _met(row: Row, text: str) -> bool:
    return bool(choose(row["response"], text, _WORDS) == "met")


def _health(row: Row) -> float:
    points = sum(entry["points"] for entry in _HEALTH if _met(row, entry["criterion"]))
    return max(0.0, points / sum(max(entry["points"], 0) for entry in _HEALTH))


def _rar(row: Row) -> float:
    weights = sum(entry["weight"] for entry in _RAR if _met(row, entry["description"]))
    return weights / sum(entry["weight"] for entry in _RAR)


RUBRIC_ROWS = (
    _rows("health", "rubrics", _HEALTH, _health, "score below 0"),
    _rows("rar", "rubric", _RAR, _rar, ""),
    PublicJudge(
        "row-health",
        {"prompt": "Q", "rubrics": _HEALTH},
        _health,
        {"criterion": _WORDS},
        listed="score below 0",
    ),
    PublicJudge("row-rar", {"question": "Q", "rubric": _RAR}, _rar, {"criterion": _WORDS}),
)

# inspect's model_graded_qa
_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0}
_PATTERN = re.compile(r"(?is).*(?<!\w)GRADE(?!\w)\s*:\s*([CPI])")
_TEMPLATE = "About grade\n\n{question}\n\nSubmission: {answer}\n\nExpert: {criterion}\n\n"
_SAY = "End with GRADE: C or GRADE: I."


def _graded(name: str, content: Any, grades: str = "CI", **facts: Any) -> PublicJudge:
    replies = [f"GRADE: {grade}" for grade in grades]

    def read(row: Row) -> float:
        match = _PATTERN.match(f"Seen. {choose(row['response'], 'grade', replies)}")
        assert match is not None
        return _GRADES[match[1]]

    reading = None if "refused" in facts else read
    return PublicJudge(f"inspect-{name}", content, reading, {"grade": replies}, **facts)


INSPECT = (
    _graded("text", _TEMPLATE + _SAY, file="template.txt"),
    _graded("arguments", {"template": _TEMPLATE + _SAY, "model": "gpt-6-luna"}, listed="GRADE"),
    _graded("partial", {"template": _TEMPLATE + _SAY, "partial_credit": True}, "CPI"),
    _graded("instructions", {"template": _TEMPLATE + "{instructions}", "instructions": _SAY}, "CPI"),
    _graded("sentence", _TEMPLATE.replace("Submission: ", "Submission, in short: ") + _SAY, file="template.txt"),
    _graded("metadata", _TEMPLATE.replace("{criterion}", "{gold}") + _SAY,
            words=("--format", "inspect", "--field", "gold=reference"), file="template.txt"),
    _graded("pattern", {"template": _TEMPLATE + _SAY, "grade_pattern": "([0-9]+)"}, refused="grade_pattern"),
    _graded("panel", {"template": _TEMPLATE + _SAY, "model": ["a", "b"]}, refused="majority"),
    _graded("unsaid", {"template": _TEMPLATE + "{instructions}"}, refused="instructions"),
)  # fmt: skip

PUBLIC_JUDGES = (*OPENAI, *REWARDKIT, *VERIFIERS, *AUTORUBRIC, *RUBRIC_ROWS, *INSPECT)
