"""Criteria with points, and parsers for criteria in rows and settings.

These published forms are read: HealthBench's `rubrics` ({criterion, points, tags}), those of its
Professional variant ({criterion_text, points}) and ResearchRubrics' ({criterion, axis, weight},
whose axis is a tag); Rubrics as Rewards' and RubricHub's ({title, description, weight}) and
`rubric_list` ("Essential Criteria: …"), or entries with a category instead of a weight; verl's
({criterion, points, tags}, whose tags are an object). Also built-in aspects, by name or as objects;
and the user's own list, or a mapping of names. A criterion of verl that a rule should verify is
judged like the others, with the tag `verifier:rule`.

Guarantee: at least one criterion, each with a text and a name of its own, and not all with 0
points; otherwise one line says which criterion is wrong. An unread field is an error.

Sources: Arora et al., HealthBench (2025); Gunjal et al., Rubrics as Rewards (2025), whose weights
by category are 1.0, 0.7, 0.3 and 0.9. Here a pitfall has −0.9 points: to meet it is bad, as the
negative weights of their data say.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import NoDecode
from typing_extensions import Self

from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS, Aspect
from judgegym.judges.config.explaining import read_text_or_file
from judgegym.judges.core.naming import slug, suggest_similar
from judgegym.judges.parsing.criteria import CANNOT_ASSESS, MET, UNMET, Words
from judgegym.llm import wire

MOST_CRITERIA = 256
"""The most criteria of a row: each is a paid part of a call."""
CATEGORIES: Mapping[str, float] = {
    "essential": 1.0,
    "important": 0.7,
    "optional": 0.3,
    "pitfall": -0.9,
}
"""The points of a criterion that has a category in place of a number."""

_NAMES, _TITLES = ("name", "id"), ("title",)
_TEXTS = ("text", "criterion", "description", "criterion_text")
_POINTS, _CATEGORY = ("points", "weight"), ("category", "importance")
_TAGS = ("tags", "axis")
_OTHERS = ("options", "required")
_KNOWN = (*_NAMES, *_TITLES, *_TEXTS, *_POINTS, *_CATEGORY, *_TAGS, *_OTHERS)
_CATEGORY_NAMES = "|".join(CATEGORIES)
_PREFIX = re.compile(rf"({_CATEGORY_NAMES})(?: criteria)?:\s*", re.IGNORECASE)


class CriterionOption(BaseModel):
    """One of several ordered options of a criterion, with 0 to 1 of its points."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str = Field(min_length=1)
    value: float = Field(ge=0, le=1)


class Criterion(BaseModel):
    """A statement that a submission meets or does not meet.

    Attributes:
        name: the name in metrics, unique in its row; also `id`. Otherwise `criterion_<number>`.
            `title` need not be unique.
        text: the text that the judge sees; also `criterion` or `description`; for an aspect
            `definition`.
        points: a number, negative if meeting it is bad (default 1); 0 only observes. Also `weight`.
            Or `category` or `importance`: essential 1.0, important 0.7, optional 0.3, pitfall −0.9.
            A pitfall is what a response should not do; "avoids …" needs positive points.
        tags: groups of criteria with their own score.
        options: labels with values from 0 to 1, instead of met and unmet.
        required: failing it gives the row its lowest score.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    text: str
    points: float = Field(default=1.0, allow_inf_nan=False)
    tags: tuple[str, ...] = ()
    options: tuple[CriterionOption, ...] = ()
    required: bool = False

    @model_validator(mode="after")
    def _can_be_judged(self) -> Self:
        labels = [option.label.strip().casefold() for option in self.options]
        if not self.text.strip():
            raise ValueError("expected a text, found a blank one")
        if len({*labels}) < len(labels) or len(labels) == 1 or CANNOT_ASSESS in labels:
            raise ValueError(
                f"options: expected two or more different labels, none of them {CANNOT_ASSESS}"
            )
        return self

    def allowed_words(self, *, cannot_assess: bool) -> Words:
        """Return the words that are verdicts on the criterion, with their values."""
        option_values: dict[str, float | None] = {
            option.label.strip(): option.value for option in self.options
        }
        values: dict[str, float | None] = {**(option_values or {MET: 1.0, UNMET: 0.0})}
        if cannot_assess:
            values[CANNOT_ASSESS] = None
        return values

    def orient_value(self, value: float) -> float:
        """Return the value as a number from 0 (bad) to 1 (good)."""
        return value if self.points >= 0 else 1.0 - value


def read_criteria(value: object) -> tuple[Criterion, ...]:
    """Parse and check the criteria of a row or a setting.

    Args:
        value: a list of texts, names of aspects, and objects; a mapping of names to these; an
            object with such a list under `criteria`; or any of them as JSON text.

    Raises:
        ValueError: they cannot be read; the message says which one is wrong, counted from 1.
    """
    if isinstance(value, str):
        try:
            value = wire.loads(value)
        except ValueError:
            raise ValueError("expected a list of criteria, found text that is not JSON") from None
    if isinstance(value, Mapping) and "criteria" in value and len(value) == 1:
        value = value["criteria"]
    if isinstance(value, Mapping):
        value = [
            {"name": name, **_normalize_entry(entry)}
            for name, entry in value.items()
            if entry is not None
        ]
    if not isinstance(value, Sequence) or isinstance(value, str):
        kind = type(value).__name__
        raise ValueError(f"expected a list of criteria, found {kind}")
    numbered = [_parse_criterion(entry, number) for number, entry in enumerate(value, start=1)]
    counts = Counter(criterion.name for criterion, is_title in numbered if is_title)
    criteria = []
    for number, (criterion, is_title) in enumerate(numbered, start=1):
        if is_title and counts[criterion.name] > 1:
            criterion = criterion.model_copy(update={"name": f"{criterion.name} {number}"})
        criteria.append(criterion)
    return check_criteria(criteria)


def check_criteria(criteria: Sequence[Criterion]) -> tuple[Criterion, ...]:
    """Check criteria together, and return them.

    Raises:
        ValueError: there are no criteria or too many, two have the same name, or all have 0 points.
    """
    if not 1 <= len(criteria) <= MOST_CRITERIA:
        count = len(criteria)
        raise ValueError(f"expected 1 to {MOST_CRITERIA} criteria, found {count}")
    # Names as the metrics have them.
    slugs = Counter(slug(criterion.name) for criterion in criteria)
    same = [criterion.name for criterion in criteria if slugs[slug(criterion.name)] > 1]
    if same:
        names = ", ".join(map(repr, same))
        raise ValueError(f"these criteria have the same name: {names}")
    if "raw" in slugs:
        raise ValueError("a criterion has the name raw, which is that of the row's own score")
    if not any(criterion.points for criterion in criteria):
        raise ValueError("all criteria have 0 points; expected at least one that counts")
    return tuple(criteria)


def _parse_criterion(entry: object, number: int) -> tuple[Criterion, bool]:
    """Parse a criterion; also return whether its name is a title, which several may share."""
    if isinstance(entry, Criterion):
        return entry, False
    try:
        fields = _normalize_entry(entry)
        unknown = next((name for name in fields if name not in _KNOWN), None)
        if unknown is not None:
            hint = suggest_similar(unknown, _KNOWN)
            raise ValueError(f"{unknown}: unknown field{hint}")
        name, title = _single_field(fields, _NAMES), _single_field(fields, _TITLES)
        options = fields.get("options", ())
        if isinstance(options, Mapping):
            options = [
                {"label": label, "value": value_of_label}
                for label, value_of_label in options.items()
            ]
        criterion = Criterion.model_validate(
            {
                "name": next(
                    (str(candidate) for candidate in (name, title) if candidate is not None),
                    f"criterion_{number}",
                ),
                "text": _single_field(fields, _TEXTS) or "",
                "points": _parse_points(fields),
                "tags": _parse_tags(_single_field(fields, _TAGS)),
                "options": options,
                "required": fields.get("required", False),
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"{part}: " for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"criterion {number}: {place}{reason}") from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"criterion {number}: {error}") from error
    return criterion, name is None and title is not None


def _parse_tags(value: object) -> object:
    """Return tags as a list; verl's object gives `name:value` for each text value."""
    if isinstance(value, Mapping):
        return [f"{name}:{text}" for name, text in value.items() if isinstance(text, str)]
    if isinstance(value, str):
        return [value]
    return value or ()


def _normalize_entry(entry: object) -> Mapping[str, object]:
    """Return the non-null fields of an entry.

    A text is a criterion's text or the name of a built-in aspect.
    """
    if isinstance(entry, str) and entry not in SUPPORTED_ASPECTS:
        prefix = _PREFIX.match(entry)
        if prefix is None:
            return {"text": entry}
        return {"text": entry[prefix.end() :], "category": prefix[1].lower()}
    if isinstance(entry, str):
        return _convert_aspect(SUPPORTED_ASPECTS[entry])
    if not isinstance(entry, Mapping):
        kind = type(entry).__name__
        raise ValueError(f"expected a text or an object, found {kind}")
    fields = {str(name): value for name, value in entry.items() if value is not None}
    if "definition" in fields:
        return _convert_aspect(Aspect.model_validate(fields))
    return fields


def _convert_aspect(aspect: Aspect) -> Mapping[str, object]:
    """Convert an aspect to a criterion.

    Polarity −1 gives negative points; a veto makes the criterion required.
    """
    if aspect.strictness is not None:
        raise ValueError(
            "strictness: all criteria have as many votes; expected the judge's setting"
        )
    points = aspect.polarity * aspect.weight
    return {
        "name": aspect.name,
        "text": aspect.definition,
        "points": points,
        "required": aspect.veto,
    }


def _single_field(fields: Mapping[str, object], names: Sequence[str]) -> object:
    present = [name for name in names if name in fields]
    if len(present) > 1:
        names_present = " and ".join(present)
        raise ValueError(f"{names_present} are the same field; expected one of them")
    if not present:
        return None
    return fields[present[0]]


def _parse_points(fields: Mapping[str, object]) -> object:
    """Return the points: a number, or those of a category."""
    points, category = _single_field(fields, _POINTS), _single_field(fields, _CATEGORY)
    word = str(category if points is None else points).lower().removesuffix(" criteria")
    is_good = isinstance(points, int | float) and points > 0
    if is_good and CATEGORIES.get(str(category).lower().removesuffix(" criteria"), 0.0) < 0:
        raise ValueError(
            f"category: {category!r} is bad to meet, and has {points!r} points; expected negative "
            "ones"
        )
    if points is None and category is not None and word not in CATEGORIES:
        categories = ", ".join(CATEGORIES)
        raise ValueError(f"category: expected one of {categories}, found {category!r}")
    return CATEGORIES.get(word, 1.0 if points is None else points)


def _parse_setting(value: object) -> object:
    text = read_text_or_file(value)
    if not isinstance(text, str):
        if not text:
            return ()
        return read_criteria(text)
    try:
        return read_criteria(yaml.safe_load(text))
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"expected a list of criteria in JSON or YAML: {reason}") from error


Criteria = Annotated[tuple[Criterion, ...], NoDecode, BeforeValidator(_parse_setting)]
"""Criteria from YAML, JSON, or `@file` with either; empty if each row brings its own."""
