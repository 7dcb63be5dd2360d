"""Composed settings: settings whose fields depend on the values of others.

Such a class defines the further settings (`choices`) and which of them its values choose
(`select_choices`). `ScoreSettings(judge="aspect", strictness=3)` then is an object of a subclass
that also has that judge's settings, and refuses those of all others. `reading/choices.py` applies
this to sources of settings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, ModelWrapValidatorHandler, TypeAdapter, model_validator
from typing_extensions import Self

from judgegym.judges.config.fields import DeclaredSetting, find_section
from judgegym.llm.wire import JSON


@dataclass(frozen=True, slots=True)
class ChoiceHelp:
    """The help page of a choice, such as a kind of judge.

    Attributes:
        setting: the setting that chooses, such as `judge`.
        name: the choice, such as `cascade`.
        groups: the names of the listed settings, by the title of their group.
        others: the settings that only `--help_all` lists.
    """

    setting: str
    name: str
    groups: Mapping[str, Sequence[str]]
    others: Sequence[str] = ()


class ComposedSettings(BaseModel):
    """Settings that are extended by those of their choices."""

    choosing: ClassVar[tuple[str, ...]] = ()
    """The settings whose values choose."""
    composed: ClassVar[tuple[type[ComposedSettings], frozenset[str]] | None] = None
    """The base class and the added choices; `None` for a class without added choices."""
    setting_verbs: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The verbs of added settings: those of the settings that choose them."""

    @classmethod
    def choices(cls) -> Mapping[str, type[BaseModel]]:
        """Return the settings that can be added, by choice, such as `judge=aspect` or `judges`."""
        return {}

    @classmethod
    def select_choices(cls, values: Mapping[str, Any]) -> Collection[str]:
        """Return the choices that unvalidated values make."""
        return ()

    @classmethod
    def expand_short_forms(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return unvalidated values with short forms expanded."""
        return dict(values)

    @classmethod
    def describe_choice(cls, values: Mapping[str, Any]) -> ChoiceHelp | None:
        """Return the help of the choice made by these values; `None` if it has no page.

        Raises:
            ValueError: there is no such choice.
        """
        return None

    @classmethod
    def readers(cls, name: str) -> list[str]:
        """Return the choices with which a setting is read."""
        return [
            choice for choice, settings in cls.choices().items() if name in settings.model_fields
        ]

    @classmethod
    def learn(cls, names: Collection[str]) -> None:
        """Load the code of these choices, if another process has made them."""

    @property
    def ignored(self) -> Mapping[str, Sequence[str]]:
        """The settings that nothing reads, given the others, with the choices that would read them.

        The value may instead be the current choice, if that tells more. Ignored settings determine
        no result: a resumed run may change them.
        """
        return {}

    @classmethod
    def is_changed(cls, values: Mapping[str, Any], name: str) -> bool:
        """Return whether unvalidated values, such as flags, change a setting from its default."""
        default = cls.model_fields[name].get_default(call_default_factory=True)
        return str(values.get(name) or default) != str(default)

    @classmethod
    def add_choices(cls, names: Collection[str]) -> type[Self]:
        """Return the class with the settings of these choices."""
        base = cls if cls.composed is None else cls.composed[0]
        return cast("type[Self]", _compose(base, frozenset(names)))

    @classmethod
    def select_class(cls, values: Mapping[str, Any]) -> type[Self]:
        """Return the class with the settings that the values choose."""
        return cls.add_choices(cls.select_choices(cls.expand_short_forms(values)))

    @classmethod
    def make_defaults(cls) -> Self:
        """Return the defaults; those of chosen settings as their classes declare them."""
        base = cls if cls.composed is None else cls.composed[0]
        return cls.model_construct(**dict(base()))

    def __new__(cls, *arguments: Any, **values: Any) -> Self:
        """Create an object of the class that the values choose."""
        return super().__new__(cls if cls.composed is not None else cls.select_class(values))

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a value, and drop cached values derived from others."""
        super().__setattr__(name, value)
        self._forget_derived()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, without cached values derived from others."""
        copy = super().model_copy(update=update, deep=deep)
        copy._forget_derived()
        return copy

    def _forget_derived(self) -> None:
        for name in self.__dict__.keys() - type(self).model_fields.keys():  # cached properties
            del self.__dict__[name]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle an object whose class was made at run time."""
        return _restore, type(self).composed, self.__getstate__()

    @model_validator(mode="wrap")
    @classmethod
    def _choose_class(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(values, Mapping):
            return handler(values)
        spelled_out = cls.expand_short_forms(values)
        if cls.composed is not None:
            return handler(spelled_out)
        return cls.select_class(values).model_validate(spelled_out)


def _restore(base: type[ComposedSettings], names: frozenset[str]) -> ComposedSettings:
    """Create an empty object of a composed class."""
    base.learn(names)
    settings_type = _compose(base, names)
    return settings_type.__new__(settings_type)


def _has_subclass(candidate: type[BaseModel], classes: Iterable[type[BaseModel]]) -> bool:
    """Return whether one of the classes is a subclass of another one."""
    return any(issubclass(cls, candidate) for cls in classes if cls is not candidate)


@cache
def _compose(base: type[ComposedSettings], names: frozenset[str]) -> type[ComposedSettings]:
    added = [settings for name, settings in base.choices().items() if name in names]
    bases = [candidate for candidate in dict.fromkeys(added) if not _has_subclass(candidate, added)]
    others = [candidate for candidate in bases if not issubclass(base, candidate)]
    namespace = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
    }
    return type(
        base.__name__,
        (base, *others),
        {**namespace, "composed": (base, names), "setting_verbs": _find_added_verbs(base, names)},
    )


def _find_added_verbs(
    base: type[ComposedSettings], names: Collection[str]
) -> Mapping[str, Sequence[str]]:
    """Return the verbs of the added settings, unless all verbs use them."""
    verbs: dict[str, list[Sequence[str]]] = {}
    for choice in names:
        choice_verbs = DeclaredSetting(choice, base, choice.partition("=")[0]).verbs
        for name in base.choices()[choice].model_fields.keys() - base.model_fields.keys():
            verbs.setdefault(name, []).append(choice_verbs)
    return {
        name: tuple(dict.fromkeys(chain(*several)))
        for name, several in verbs.items()
        if all(several)
    }


SettingsT = TypeVar("SettingsT", bound=BaseModel)


def compose(settings_type: type[SettingsT], values: Mapping[str, Any]) -> type[SettingsT]:
    """Return the settings type, and its sections, with the choices of these values.

    Args:
        settings_type: the settings.
        values: unvalidated values, those of sections as objects.
    """
    return _change_sections(
        settings_type, lambda model, section_values: model.select_class(section_values), values
    )


def expand_choices(settings_type: type[SettingsT]) -> type[SettingsT]:
    """Return the settings type, and its sections, with all possible choices."""
    return _change_sections(settings_type, lambda model, _: model.add_choices(model.choices()), {})


def composed_sections(
    settings_type: type[BaseModel],
) -> Iterator[tuple[str, type[ComposedSettings]]]:
    """Yield the composed settings and sections, with the prefix of their names."""
    if issubclass(settings_type, ComposedSettings):
        yield "", settings_type
        return
    for name in settings_type.model_fields:
        section = find_section(settings_type, name)
        if section is not None and issubclass(section, ComposedSettings):
            yield f"{name}.", section


def _change_sections(
    settings_type: type[SettingsT],
    change: Callable[[type[ComposedSettings], Mapping[str, Any]], type[ComposedSettings]],
    values: Mapping[str, Any],
) -> type[SettingsT]:
    sections: dict[str, type[ComposedSettings]] = {}
    for prefix, model in composed_sections(settings_type):
        if not prefix:
            return cast("type[SettingsT]", change(model, values))
        name = prefix.removesuffix(".")
        section_values = values.get(name)
        sections[name] = change(
            model, section_values if isinstance(section_values, Mapping) else {}
        )
    if sections:
        return _replace_sections(settings_type, tuple(sections.items()))
    return settings_type


@cache
def _replace_sections(
    settings_type: type[SettingsT], sections: tuple[tuple[str, type[ComposedSettings]], ...]
) -> type[SettingsT]:
    """Return the settings type with sections of these classes."""
    fields = settings_type.model_fields
    defaults = {
        name: fields[name].default for name, _ in sections if not fields[name].is_required()
    }
    namespace = {"__module__": settings_type.__module__, "__qualname__": settings_type.__qualname__}
    annotations = {"__annotations__": dict(sections)}
    return type(settings_type.__name__, (settings_type,), {**namespace, **annotations, **defaults})


def json_defaults(model: type[BaseModel], names: Collection[str]) -> Mapping[str, JSON]:
    """Return the defaults of settings, as files hold them."""
    fields = model.model_fields
    defaults = {name: fields[name].get_default(call_default_factory=True) for name in names}
    return {
        name: TypeAdapter(object).dump_python(value, mode="json")
        for name, value in defaults.items()
    }
