"""Completions of the stand-in, as a function of the request and the known prompts only.

As judge, it finds the judge to which a prompt belongs and parses the prompt with that judge's
format. It computes the merit of a text from its words (deterministic, linear in the length of the
text, cached by text), and the judge's prompt format makes a reply from the merits. As policy, it
answers with sentences made of the prompt's words.

It knows the prompts of this project's judges, and those that are given by reference. A reference is
`path/to/file.py:NAME` or `package.module:NAME`, where a module-level `PromptFormat` has that name,
or the name of a kind of judge.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, cycle, islice, pairwise
from pathlib import Path
from random import Random
from typing import TypeAlias

from judgegym.judges import prompts
from judgegym.judges.config.explaining import is_prompt_file
from judgegym.judges.core.delimiters import Delimiters
from judgegym.judges.core.judge import JudgeDefinition
from judgegym.judges.core.prompt_format import (
    PREVIOUS_EVALUATION,
    PromptFormat,
    StandInPrompt,
    find_marker_lines,
    read_sections,
)
from judgegym.judges.core.seeding import make_generator
from judgegym.judges.pairwise import RATING_PROMPT
from judgegym.judges.parsing.verdict_parser import CRITIQUE
from judgegym.judges.prompt_files.file import PromptFile
from judgegym.judges.prompt_files.stand_in import make_prompt_format
from judgegym.judges.scorers.own_kinds import load_python_file
from judgegym.judges.scorers.registry import JUDGES, find_definition, is_kind
from judgegym.judges.scorers.stand_in import list_references
from judgegym.offline.request import BadRequest, ChatRequest, RequestMessage, system_text

_CRITIQUE_REQUEST = "\n\n" + prompts.load("critique")
_EVALUATION_END = re.compile(rf"\nEND OF {PREVIOUS_EVALUATION}(?P<tag> [0-9a-f]+)?:\Z")

_RULE = re.compile(r"\n+---(?: [0-9a-f]+)?\n+\Z")


@dataclass(frozen=True, slots=True)
class ParsedPrompt:
    """A judge's parsed prompt.

    Attributes:
        prompt_format: its format.
        instructions: the text before its sections.
        sections: the sections by title.
        is_critique: whether it asks for a critique.
    """

    prompt_format: PromptFormat
    instructions: str
    sections: Mapping[str, str]
    is_critique: bool


def read_prompt(
    messages: Sequence[RequestMessage], formats: Sequence[PromptFormat]
) -> ParsedPrompt | None:
    """Parse the last user message that is a judge's prompt; `None` without one.

    Later messages may only repeat the request for the verdict. If a section quotes another prompt,
    the format whose sections begin first counts.
    """
    for message in reversed([message for message in messages if message.role == "user"]):
        content, is_critique = _strip_critique_request(message.content)
        titles: set[str] = set()
        titles_with_id: set[str] = set()
        for judge_format in formats:
            titles.update(judge_format.sections, judge_format.optional)
            titles_with_id.update(judge_format.with_id)
        lines = list(find_marker_lines(content, titles, titles_with_id))
        matches = []
        for judge_format in formats:
            found_sections = read_sections(
                content,
                lines,
                judge_format.sections,
                judge_format.optional,
                judge_format.with_id,
            )
            if found_sections is not None:
                matches.append((found_sections, judge_format))
        if matches:
            (start, sections), prompt_format = min(matches, key=lambda pair: pair[0].start)
            *_, last = sections
            texts = {**sections, last: _strip_ending(sections[last], prompt_format.ending)}
            system = system_text(messages)
            instructions = f"{system}\n{content[:start]}"
            return ParsedPrompt(
                prompt_format, instructions, texts, is_critique or PREVIOUS_EVALUATION in texts
            )
    return None


def _strip_ending(text: str, ending: str) -> str:
    """Return the last section without the prompt's ending and the rule between the two."""
    if ending and text.endswith(ending):
        return _RULE.sub("", text.removesuffix(ending))
    return text


def _strip_critique_request(content: str) -> tuple[str, bool]:
    """Return the judge's first prompt, and whether this message asks for a critique."""
    before = content.removesuffix(_CRITIQUE_REQUEST)
    end = _EVALUATION_END.search(before) if before != content else None
    if end is None:
        return content, False
    shown, _, _ = before.partition(f"\n\n{PREVIOUS_EVALUATION}{end['tag'] or ''}:\n")
    notices = (
        Delimiters((end["tag"] or "").strip(), broken).notice.strip() for broken in (False, True)
    )
    for notice in notices:
        if notice and shown.endswith(notice):
            return shown.removesuffix(f"\n\n{notice}"), True
    return shown, True


MAX_CHARACTERS = 20_000
"""Number of characters of a text that are read; the rest is ignored."""

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_COMMON = """
    a about after all also am an and any are as at be been before but by can could did do does doing
    done each for from get give had has have he her here him his how i if in into is it its just let
    like ll make may me might more most much must my no not now of off on one only or other our out
    over own please re s same she should so some such t than that the their them then there these
    they this those to too under until up us use ve very was we were what when where which while who
    whom why will with would write you your
"""
_STOPWORDS = frozenset(_COMMON.split())
_QUESTION, _REFERENCE, _LENGTH = 0.5, 0.15, 0.35
_MIDDLE, _STEEPNESS = 0.5, 8.0


@dataclass(frozen=True, slots=True)
class Features:
    """Measures of a text.

    Attributes:
        content: its content words.
        length: the number of all its words.
        fresh: the share of word pairs that do not repeat.
    """

    content: frozenset[str]
    length: int
    fresh: float


def split_words(text: str) -> list[str]:
    """Return the lower-case words of a text's head: runs of letters and digits.

    Each character is a word in Chinese or Japanese.
    """
    return _WORD.findall(text[:MAX_CHARACTERS].lower())


def find_salient_words(text: str) -> tuple[str, ...]:
    """Return a text's distinct content words of 3 to 24 characters, in order of appearance."""
    return tuple(dict.fromkeys(word for word in split_words(text) if _is_salient(word)))


def measure_quality(answer: str, question: str = "", reference: str = "") -> float:
    """Return the quality of an answer from 0 to 1, by its words.

    It is the weighted mean of three numbers: the share of the question's words and of the
    reference's words (if given) that occur in the answer, and a saturating function of its length;
    times the share of word pairs that do not repeat.
    """
    features = _features(answer[:MAX_CHARACTERS])
    parts = [(_LENGTH, features.length / (features.length + 40))]
    for weight, text in ((_QUESTION, question), (_REFERENCE, reference)):
        if content := _features(text[:MAX_CHARACTERS]).content:
            parts.append((weight, len(content & features.content) / len(content)))
    return (
        features.fresh
        * sum(weight * value for weight, value in parts)
        / sum(weight for weight, _ in parts)
    )


def compute_merit(quality: float) -> float:
    """Convert a quality to a merit between 0 and 1; usual answers cover the whole range."""
    return 1 / (1 + math.exp(-_STEEPNESS * (quality - _MIDDLE)))


def _is_salient(word: str) -> bool:
    return 3 <= len(word) <= 24 and word not in _STOPWORDS


@lru_cache(maxsize=2048)
def _features(head: str) -> Features:
    in_order = split_words(head)
    fresh = 1.0
    if len(in_order) > 1:
        fresh = len(set(pairwise(in_order))) / (len(in_order) - 1)
    return Features(frozenset(in_order) - _STOPWORDS, len(in_order), fresh)


_LENIENCY = 0.04  # maximum difference between two models' merits, up or down
_VOTE_SPREAD = 0.1  # the same between votes, at temperature 1
# The same after a critique, and the share of verdicts that a critique changes.
_REVISION_SPREAD = 0.12
_REVISED = 0.3
_CRITIQUES = (
    "I looked at my evaluation again and asked whether it is too harsh or too lenient.",
    "I went through my rationale once more and looked for what it misses.",
)


Opinion: TypeAlias = "Callable[[Sequence[str]], Mapping[str, float]]"
"""Computes the merits of the sections under judgment, by their titles."""


def make_judge_reply(
    parsed: ParsedPrompt, request: ChatRequest, index: int, opinion: Opinion | None = None
) -> str:
    """Return the judge's reply for choice `index`, with a critique before it if requested.

    The first choice without a seed or with seed 0 uses the merits as they are. Above temperature 0
    all other choices change them a little, as votes differ; so do some replies to a request for a
    critique. An `opinion` replaces the merits.
    """
    task_texts = [text for title, text in parsed.sections.items() if title != PREVIOUS_EVALUATION]
    # Seeded without the earlier evaluation, so that a round keeps the verdict that the round
    # before it revised.
    rng = make_generator(
        index,
        repr((request.model, task_texts)) if parsed.is_critique else request.question_digest,
        "judge",
    )
    is_vote = request.temperature > 0 and (index > 0 or request.seed not in (None, 0))
    spread = 0.0
    if is_vote:
        spread = _VOTE_SPREAD * request.temperature
    if parsed.is_critique and rng.random() < _REVISED:
        spread += _REVISION_SPREAD
    try:
        shown = _make_shown_prompt(parsed, request.model, lambda: rng.uniform(-spread, spread))
        if opinion is not None:
            shown = replace(shown, merits=opinion([*shown.merits]))
        reply = parsed.prompt_format.reply(shown)
    except (
        Exception
    ) as error:  # an error of the user's own judge; any other status would be retried
        raise BadRequest(
            f"reply of the PromptFormat with the sections {[*parsed.sections]}: {error!r}"
        ) from error
    critique = rng.choice(_CRITIQUES) if parsed.is_critique else ""
    if request.properties is not None:
        return _format_object(parsed.prompt_format, reply, critique, request.properties)
    if critique:
        return f"{critique}\n\n{reply}"
    return reply


def _format_object(
    prompt_format: PromptFormat, reply: str, critique: str, properties: Sequence[str]
) -> str:
    """Return the reply as a JSON object with these fields, in this order."""
    fields = {CRITIQUE: critique, **(prompt_format.fields(reply) or {})}
    missing = [name for name in properties if name not in fields]
    if missing:
        names = ", ".join(missing)
        raise BadRequest(
            f"response_format: the offline judge's replies to this prompt have no {names}"
        )
    return json.dumps({name: fields[name] for name in properties}, ensure_ascii=False)


def _make_shown_prompt(
    parsed: ParsedPrompt, model: str, move: Callable[[], float]
) -> StandInPrompt:
    prompt_format = parsed.prompt_format
    sections = parsed.sections
    question = sections.get(prompt_format.question, "")
    reference = next(
        (sections[title] for title in prompt_format.references if title in sections), ""
    )
    leniency = make_generator(0, model, "leniency").uniform(-_LENIENCY, _LENIENCY)
    merits = {
        title: compute_merit(
            measure_quality(sections[title], question, reference) + leniency + move()
        )
        for title in prompt_format.select_judged(sections)
    }
    context = [
        text for title, text in sections.items() if title not in (*merits, PREVIOUS_EVALUATION)
    ]
    return StandInPrompt(
        parsed.instructions, sections, merits, make_generator(0, repr(context), "case")
    )


BUILT_IN: tuple[PromptFormat, ...] = (
    *chain.from_iterable(judge.prompts for judge in JUDGES.values()),
    RATING_PROMPT,
)


def load_known_prompts(settings: object) -> tuple[PromptFormat, ...]:
    """Return the formats of this project's judges, of prompt files in settings, and of own judges.

    Raises:
        ValueError: a prompt file is wrong or cannot be read.
    """
    return (*chain.from_iterable(map(load_prompts, list_references(settings))), *BUILT_IN)


def load_prompts(reference: str) -> tuple[PromptFormat, ...]:
    """Return the formats of a reference: a name, a kind of judge, or a prompt file (path or JSON).

    Raises:
        ValueError: the reference cannot be loaded; one line says why.
    """
    if reference.startswith("{"):
        return (make_prompt_format(PromptFile.model_validate_json(reference)),)
    if is_prompt_file(reference):
        references = list_references({"judge": reference})
        return (*chain.from_iterable(map(load_prompts, references)),)
    location, _, name = reference.rpartition(":")
    if not location and is_kind(name):
        return find_definition(name).prompts
    try:
        if location.endswith(".py"):
            names = vars(load_python_file(location))
        else:
            names = vars(importlib.import_module(location))
    except Exception as error:  # any error of the user's module is the reason
        kind = type(error).__name__
        raise ValueError(
            f"--prompt {reference}: cannot load {location!r}: {kind}: {error}"
        ) from error
    value = names.get(name)
    if isinstance(value, JudgeDefinition):
        return value.prompts
    if not isinstance(value, PromptFormat):
        raise ValueError(f"--prompt {reference}: {location!r} has no PromptFormat named {name!r}")
    return (value,)


def make_reference(prompt: PromptFormat | str) -> str:
    """Return the reference by which a process in another directory loads a prompt.

    Raises:
        ValueError: no name at the top of a module refers to it.
    """
    if isinstance(prompt, str):
        location, _, name = prompt.rpartition(":")
        if location.endswith(".py"):
            location = str(Path(location).resolve())
            return f"{location}:{name}"
        return prompt
    for module in list(sys.modules.values()):
        prompt_name = next((name for name, value in vars(module).items() if value is prompt), None)
        path = getattr(module, "__file__", None)
        spec = getattr(module, "__spec__", None)
        if prompt_name is not None and path is not None:
            # Another process cannot import a script, and a file may have been loaded under a name
            # of its own.
            if spec is not None and "." in spec.name:
                return f"{spec.name}:{prompt_name}"
            return f"{path}:{prompt_name}"
    raise ValueError(
        f"give the prompt with the sections {prompt.sections} a name at the top of its file"
    )


_OF_MARKERS = ("assistant", "message", "end")
_FALLBACK = ("question", "answer", "example", "reason", "purpose", "result")
_SENTENCES = (
    "The short answer turns on {a} and {b}.",
    "The role of {a} becomes clear once {b} is taken into account.",
    "In practice, {a} depends on how carefully {b} is handled.",
    "Most difficulties with {a} come from a vague idea of {b}.",
    "First settle what {a} means, then check it against {b}.",
    "Some would put {b} first, yet {a} usually decides the matter.",
    "When {a} changes, {b} tends to change with it, though more slowly.",
    "There is a trade-off between {a} and {b}, and both sides have merit.",
    "Taken together, {a} and {b} give a workable answer.",
)


def write_answer(request: ChatRequest, index: int) -> str:
    """Write an answer of 40 to 220 words (bullets count) for choice `index`, without thinking tags.

    The model's name determines its length, its share of the prompt's words, and whether it is a
    list. The rest depends on the messages and, above temperature 0, on temperature, seed and index.
    """
    rng = _make_rng("answer", request, index)
    style = make_generator(0, request.model, "style")
    length = style.uniform(55, 140)
    share = style.uniform(0.3, 1.0)
    is_list = style.random() < 0.4
    if request.temperature > 0:
        length = length + rng.uniform(-12, 12)
        share = share * rng.uniform(0.6, 1.4)
    topic = _find_topic(request)
    words = cycle(rng.sample(topic, min(len(topic), max(2, round(share * len(topic))))))
    sentences: list[str] = []
    while sum(len(sentence.split()) for sentence in sentences) < length:
        sentences += _fill_sentences(rng.sample(_SENTENCES, 3), words)
    return ("\n- " if is_list else " ").join(sentences)


def plays_user(request: ChatRequest) -> bool:
    """Return whether the request asks for the message of a simulated user."""
    return system_text(request.messages).startswith(prompts.load("user").partition("\n")[0])


def write_user_message(request: ChatRequest, index: int) -> str:
    """Write a user's next message: a question about two of the policy's words, or a farewell.

    The later the message, the likelier the farewell.
    """
    rng = _make_rng("user", request, index)
    message_count = sum(message.role == "assistant" for message in request.messages)
    first, second = rng.sample(
        [word for word in _find_topic(request) if word not in _OF_MARKERS] + [*_FALLBACK], 2
    )
    if rng.random() < 0.2 * (message_count - 1):
        farewell = prompts.load("user").rpartition("\n")[2]
        return f"Thank you, that is all about {first}.\n\n{farewell}"
    return (
        f"You speak of {first}. What has it to do with {second}, and what would you advise me to "
        "do?"
    )


def write_thinking(request: ChatRequest, index: int) -> str:
    """Write the thinking before the answer of choice `index`."""
    return _fill_sentences(
        [_make_rng("thought", request, index).choice(_SENTENCES)], iter(_find_topic(request))
    )[0]


def _fill_sentences(templates: Sequence[str], words: Iterator[str]) -> list[str]:
    return [template.format(a=next(words), b=next(words)) for template in templates]


def _find_topic(request: ChatRequest) -> tuple[str, ...]:
    """Return the words of the last user message that has any."""
    for message in reversed(request.messages):
        if message.role == "user" and (topic := find_salient_words(message.content)):
            if len(topic) > 1:
                return topic
            return (*topic, *_FALLBACK)
    return _FALLBACK


def _make_rng(purpose: str, request: ChatRequest, index: int) -> Random:
    drawn: tuple[object, ...] = ()
    if request.temperature > 0:
        drawn = (request.temperature, request.seed, index)
    return make_generator(0, repr((request.model, drawn, request.messages)), purpose)


_NOISE = (
    "brindle",
    "costrav",
    "dimmel",
    "fennow",
    "gralt",
    "hosket",
    "lumber",
    "morrow",
    "pintle",
    "quorish",
)


def make_answers(
    request: ChatRequest,
    prompts: Sequence[PromptFormat] = BUILT_IN,
    *,
    judge_only: bool = False,
    opinion: Opinion | None = None,
) -> list[str]:
    """Write the texts of all choices: a judge's replies to a known prompt, else a policy's answers.

    If a system message asks for `<think>` tags, each text begins with one closed block of thinking.

    Raises:
        BadRequest: the prompt is unknown, and `judge_only` is set.
    """
    if plays_user(request):
        return [write_user_message(request, index) for index in range(request.n)]
    parsed = read_prompt(request.plain_messages, prompts)
    if parsed is None and judge_only:
        lines = islice(find_marker_lines(request.messages[-1].content), 8)
        titles = ", ".join(repr(line.text) for line in lines) or "none"
        raise BadRequest(
            "the offline judge does not know this prompt: no judge's sections are in it. Declare a "
            "PromptFormat beside the prompt, and name it in offline_prompts of the environment or "
            "with `judgegym offline-server --prompt FILE.py:NAME`. Possible section titles in the "
            f"last message: {titles}"
        )
    if parsed is None:
        texts = [write_answer(request, index) for index in range(request.n)]
    else:
        texts = [make_judge_reply(parsed, request, index, opinion) for index in range(request.n)]
    if "<think>" not in system_text(request.messages):
        return texts
    thoughts = [write_thinking(request, index) for index in range(request.n)]
    return [
        f"<think>\n{thinking}\n</think>\n\n{text}"
        for thinking, text in zip(thoughts, texts, strict=True)
    ]


def write_noise(request: ChatRequest, index: int = 0) -> str:
    """Return random lower-case words for choice `index`, which no parser accepts.

    They have no verdict, digit, bracket, quotation mark or single letter.
    """
    return " ".join(make_generator(index, request.digest, "noise").choices(_NOISE, k=12))
