"""What a setting's declaration says of it."""

import pytest
from pydantic import BaseModel, Field, ValidationError

from judges.config.fields import is_operational, operational, setting, verbs_of


class Demo(BaseModel):
    plain: int = Field(1, ge=0)
    other_extra: int = Field(3, json_schema_extra={"x": 1})
    shapes_results: int = setting(4, "What is found.", verbs=("serve", "process"))
    shapes_the_run: int = operational(2, "How fast.", ge=0, verbs=("serve",))


def test_operational_is_said_of_those_that_were_declared_so() -> None:
    assert [name for name in Demo.model_fields if is_operational(Demo, name)] == ["shapes_the_run"]


def test_verbs_are_those_of_the_declaration_and_none_where_all_use_it() -> None:
    assert {name: verbs_of(Demo, name) for name in Demo.model_fields} == {
        "plain": (),
        "other_extra": (),
        "shapes_results": ("serve", "process"),
        "shapes_the_run": ("serve",),
    }


def test_default_description_and_range_are_pydantics() -> None:
    assert (Demo().shapes_the_run, Demo.model_fields["shapes_the_run"].description) == (2, "How fast.")
    with pytest.raises(ValidationError):
        Demo(shapes_the_run=-1)
