"""What a setting's declaration says of it."""

from typing import ClassVar

import pytest
from pydantic import BaseModel, Field, ValidationError

from judgegym.judges.config.fields import OTHER_GROUP, declared_settings, operational, setting


class Grouped(BaseModel, use_attribute_docstrings=True):
    help_group: ClassVar[str] = "grouped"

    inherited: int = 0


class Alone(Grouped):
    of_only_base: int = 0


class Other(BaseModel):
    pass


class Demo(Alone, Other):
    plain: int = Field(1, ge=0)
    other_extra: int = Field(3, json_schema_extra={"x": 1})
    shapes_results: int = setting(4, "What is found.", verbs=("serve", "process"), group="mine")
    """Why so: no part of the description."""
    shapes_the_run: int = operational(2, ge=0, verbs=("serve",), common=True, instead_of="plain")
    """How fast; the text below
    may have two lines."""


SETTINGS = {each.name: each for each in declared_settings(Demo)}


def test_operational_and_common_settings_are_those_that_were_declared_so() -> None:
    assert [name for name, each in SETTINGS.items() if each.is_operational] == ["shapes_the_run"]
    assert [name for name, each in SETTINGS.items() if each.is_common] == ["shapes_the_run"]


def test_verbs_of_a_setting_are_those_of_its_declaration_and_none_where_all_use_it() -> None:
    assert {name: each.verbs for name, each in SETTINGS.items() if each.verbs} == {
        "shapes_results": ("serve", "process"),
        "shapes_the_run": ("serve",),
    }
    assert [each.name for each in declared_settings(Demo, verb="evaluate")] == [
        *("inherited", "of_only_base", "plain", "other_extra")
    ]


def test_group_of_a_setting_is_its_own_or_that_of_the_class_that_declares_it_or_of_its_only_base() -> None:
    groups = {name: SETTINGS[name].group for name in ("inherited", "of_only_base", "plain", "shapes_results")}
    found = {"inherited": "grouped", "of_only_base": "grouped", "plain": OTHER_GROUP, "shapes_results": "mine"}
    assert groups == found


def test_description_may_stand_below_the_attribute() -> None:
    abouts = {name: each.about for name, each in SETTINGS.items() if each.about}
    described = {"shapes_results": "What is found."}
    assert abouts == {**described, "shapes_the_run": "How fast; the text below may have two lines."}


def test_default_and_range_are_pydantics() -> None:
    assert Demo().shapes_the_run == 2
    with pytest.raises(ValidationError):
        Demo(shapes_the_run=-1)
