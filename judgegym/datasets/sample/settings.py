"""The settings of the policy that is asked for responses: those of the environments, under the same names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from pydantic import BaseModel, Field

from judgegym.engine.settings.env import CompletionSettings
from judgegym.engine.settings.policy import PolicySettings
from judgegym.engine.settings.public import without_secrets
from judgegym.engine.settings.verbs import uses
from judgegym.judges.config.fields import setting
from judgegym.judges.config.help import DeclaredSetting, declared_settings
from judgegym.judges.config.sources import LoadedSettings, SettingsT
from judgegym.llm.errors import SettingsError
from judgegym.llm.wire import JSON

_SWITCH = "responses_per_prompt"
_SECTION = "openai"
_OF_THE_JUDGE_TOO = ("max_retries", "retry_delay")
_OF_RESPONSES = ("response_column", "group_by")
_THAT_MATTER = ("model_name", "extra_body")


class SampleSettings(CompletionSettings):
    """Whether a policy is asked for responses, and how."""

    help_group: ClassVar[str] = "policy"

    responses_per_prompt: int | None = setting(
        None,
        "Ask the policy (--openai.…) for this many responses to each prompt first, and judge them; responses that the "
        "data has are left as they are. If unset, the data's own responses are judged.",
        ge=1,
    )
    openai: PolicySettings = Field(default_factory=PolicySettings)

    @property
    def policy_settings(self) -> dict[str, JSON]:
        """The settings of the policy for `config.yaml`, without secrets; empty if none is asked."""
        if self.responses_per_prompt is None:
            return {}
        section = {
            name: value for name, value in without_secrets(self.openai).items() if _is_read(PolicySettings, name)
        }
        if "api_key_env" not in self.openai.model_fields_set:
            del section["api_key_env"]  # a key whose variable is named in a file may be sent to any host
        return {_SECTION: section}

    def policy_matters(self) -> dict[str, JSON]:
        """The settings of the endpoint that determine the responses, by dotted name."""
        return dict(compared_settings(self.policy_settings))


def compared_settings(config: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """A `config.yaml` of which the policy's section is replaced by what of it determines the responses."""
    section = config.get(_SECTION)
    found = {name: value for name, value in config.items() if name != _SECTION}
    if isinstance(section, Mapping):
        found |= {f"{_SECTION}.{name}": section.get(name) for name in _THAT_MATTER}
    return found


def is_used(declared: DeclaredSetting) -> bool:
    """Whether the command reads a setting; some of the policy are those of training."""
    return not declared.name.startswith(f"{_SECTION}.") or _is_read(declared.model, declared.field)


def of_policy_alone() -> Iterator[str]:
    """The names of the settings that nothing reads if no policy is asked."""
    for declared in declared_settings(SampleSettings):
        if declared.name not in (_SWITCH, *_OF_THE_JUDGE_TOO):
            yield declared.name


def check_sampling_flags(loaded: LoadedSettings[SettingsT], settings: SampleSettings) -> None:
    """Check that each flag of the command line is read.

    Args:
        loaded: where the settings were given.
        settings: the settings themselves.

    Raises:
        SettingsError: one is not; the message names all such flags, a line for each.
    """
    given = [name for name, origin in loaded.origins.items() if origin == "command line"]
    refused = [
        f"--{declared.name}: nothing reads it: it is a setting of training"
        for declared in declared_settings(type(settings))
        if declared.name in given and not is_used(declared)
    ]
    if settings.responses_per_prompt is None:
        unread, why = set(of_policy_alone()), f"without --{_SWITCH}"
    else:
        unread, why = set(_OF_RESPONSES), f"with --{_SWITCH}, which asks for responses to each row"
    refused += [f"--{name}: nothing reads it {why}" for name in given if name in unread]
    if refused:
        raise SettingsError("\n".join(refused))


def _is_read(model: type[BaseModel], name: str) -> bool:
    return uses("evaluate", model, name)
