"""Aspects as the criteria of a judge that compares answers."""

from __future__ import annotations

from judgegym.judges.aspects.prompt import SUPPORTED_ASPECTS, Aspect, criteria_of


def test_criteria_have_each_aspects_question_and_its_good_verdict() -> None:
    lines = criteria_of(tuple(SUPPORTED_ASPECTS.values())).split("\n")
    assert len(lines) == len(SUPPORTED_ASPECTS)
    for aspect, line in zip(SUPPORTED_ASPECTS.values(), lines, strict=True):
        assert line == f"- {aspect.name}: {aspect.definition} Good: {'yes' if aspect.polarity == 1 else 'no'}."


def test_criteria_have_weight_and_veto_where_an_aspect_has_them() -> None:
    safe = Aspect(name="safe", definition="Is it safe?", weight=2.5, veto=True)
    assert criteria_of([safe]) == (
        "- safe: Is it safe? Good: yes. Weight: 2.5. An answer that fails this is worse than any that does not."
    )
