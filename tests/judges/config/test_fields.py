"""What a setting's declaration says of it."""

from collections.abc import Callable
from typing import ClassVar

import pytest
from pydantic import BaseModel, Field, ValidationError

from judgegym.judges.config.fields import (
    OTHER_GROUP,
    group_of,
    is_common,
    is_operational,
    operational,
    setting,
    verbs_of,
)
from judgegym.judges.config.help import declared_settings


class Grouped(BaseModel):
    help_group: ClassVar[str] = "grouped"

    inherited: int = 0


class Demo(Grouped):
    plain: int = Field(1, ge=0)
    other_extra: int = Field(3, json_schema_extra={"x": 1})
    shapes_results: int = setting(4, "What is found.", verbs=("serve", "process"), group="mine")
    shapes_the_run: int = operational(2, "How fast.", ge=0, verbs=("serve",), common=True)


@pytest.mark.parametrize("is_so", [is_operational, is_common])
def test_operational_and_common_settings_are_those_that_were_declared_so(is_so: Callable[..., bool]) -> None:
    assert [name for name in Demo.model_fields if is_so(Demo, name)] == ["shapes_the_run"]


def test_verbs_of_a_setting_are_those_of_its_declaration_and_none_where_all_use_it() -> None:
    verbs = {name: verbs_of(Demo, name) for name in ("plain", "other_extra", "shapes_results", "shapes_the_run")}
    assert verbs == {
        "plain": (),
        "other_extra": (),
        "shapes_results": ("serve", "process"),
        "shapes_the_run": ("serve",),
    }


def test_group_of_a_setting_is_its_own_or_that_of_the_class_that_declares_it() -> None:
    groups = {name: group_of(Demo, name) for name in ("inherited", "plain", "shapes_results")}
    assert groups == {"inherited": "grouped", "plain": OTHER_GROUP, "shapes_results": "mine"}


def test_default_description_and_range_are_pydantics() -> None:
    assert (Demo().shapes_the_run, Demo.model_fields["shapes_the_run"].description) == (2, "How fast.")
    with pytest.raises(ValidationError):
        Demo(shapes_the_run=-1)


class Documented(BaseModel, use_attribute_docstrings=True):
    below: int = operational(1, ge=0)
    """How many; the text below
    may have two lines."""
    beside: int = setting(2, "How fast.")
    """Why so: no part of the description."""


def test_description_may_stand_below_the_attribute() -> None:
    abouts = {setting.field: setting.about for setting in declared_settings(Documented)}
    assert abouts == {"below": "How many; the text below may have two lines.", "beside": "How fast."}
