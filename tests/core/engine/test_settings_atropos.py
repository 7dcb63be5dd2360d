"""The settings that Atropos has too: same names, types and defaults, but for the differences that are listed here."""

import logging
from dataclasses import dataclass
from enum import EnumMeta
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, SecretStr

from judgegym.engine.settings import EnvConfig, PolicySettings
from judgegym.engine.settings.policy import ReasoningEffort, reasoning_body
from judgegym.engine.settings.training import IGNORED
from judgegym.judges.config.explaining import TextOrFile
from judgegym.judges.config.removed import find_removed_setting
from judgegym.llm.cost.models import DEFAULT_POLICY
from judgegym.llm.errors import SettingsError
from tests.core.engine.loading import loaded_from

OTHER_DEFAULT: dict[str, Any] = {
    "env.tokenizer_name": None,
    "env.eval_handling": "NONE",
    "env.use_wandb": False,
    "env.worker_timeout": -1,
    "openai.api_key": None,
    "openai.base_url": "https://api.openai.com/v1",
    "openai.model_name": DEFAULT_POLICY,
    "openai.num_requests_for_eval": 256,
}
OTHER_TYPE: dict[str, Any] = {
    "env.use_wandb": bool | Literal["optional"],
    "env.reasoning_effort": ReasoningEffort | None,
    "openai.api_key": SecretStr | None,
    "openai.base_url": str,
    "openai.timeout": float,
    "env.tokenizer_name": str | None,
    "env.custom_thinking_prompt": TextOrFile | None,
}


def plain(annotation: Any) -> Any:
    """A type, with an enum or a Literal as the set of its values and a union as the set of its parts."""
    if isinstance(annotation, EnumMeta):
        return frozenset(member.value for member in annotation)
    if get_origin(annotation) is Literal:
        return frozenset(get_args(annotation))
    parts = get_args(annotation)
    return frozenset(map(plain, parts)) if type(None) in parts else annotation


@dataclass(frozen=True)
class Section:
    """A section of the settings, with our class and Atropos' own."""

    name: str
    ours: type[BaseModel]
    theirs: type[BaseModel]


def sections() -> list[Section]:
    """Both sections; Atropos takes seconds to import, so not every worker does."""
    from atroposlib.envs.base import BaseEnvConfig
    from atroposlib.envs.server_handling.server_baseline import APIServerConfig

    return [
        Section("env", EnvConfig, BaseEnvConfig),
        Section("openai", PolicySettings, APIServerConfig),
    ]


@pytest.mark.slow
def test_settings_of_atropos_have_its_types_and_defaults() -> None:
    for section in sections():
        for field, atropos in section.theirs.model_fields.items():
            name = f"{section.name}.{field}"
            default = getattr(atropos.default, "value", atropos.default)
            if name in IGNORED:
                continue
            if (removed := find_removed_setting(section.ours, field)) is not None:
                assert removed.is_constant(OTHER_DEFAULT.get(name, default)), name
                continue
            mine = section.ours.model_fields[field]
            assert plain(mine.annotation) == plain(OTHER_TYPE.get(name, atropos.annotation)), name
            assert mine.default == OTHER_DEFAULT.get(name, default), name
            assert name not in OTHER_DEFAULT or OTHER_DEFAULT[name] != default, (
                f"{name} is listed as another"
            )


@pytest.mark.slow
def test_ignored_settings_are_settings_of_atropos_and_not_ours() -> None:
    for section in sections():
        ignored = {
            name.partition(".")[2] for name in IGNORED if name.startswith(f"{section.name}.")
        }
        of_files_alone = {"weight"}  # Atropos reads it from no file, but files have it
        assert ignored - of_files_alone <= set(section.theirs.model_fields) - set(
            section.ours.model_fields
        )


FILES = [
    ("env: {batch_size: 8, seed: 3}\nopenai: {health_check: true, timeout: 5.0}", 0),
    (
        "env: {batch_size: 8, seed: 3}\nopenai: [{base_url: 'http://127.0.0.1:1/v1', "
        "health_check: true, timeout: 5}]",
        1,
    ),
    (
        "env: {batch_size: 8, seed: 3}\nslurm: false\ntesting: false\nopenai:\n"
        "- {base_url: 'http://127.0.0.1:1/v1', health_check: true, weight: 1.0, timeout: 5}\n"
        "- {base_url: 'http://127.0.0.1:2/v1', health_check: true, weight: 0.5, timeout: 5}",
        2,
    ),
]


@pytest.mark.parametrize(("text", "replicas"), FILES)
def test_ignored_settings_of_a_file_are_named_in_one_warning(
    text: str, replicas: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "atropos.yaml"
    path.write_text(text)
    with caplog.at_level(logging.WARNING):
        settings = loaded_from(f"--config={path}").settings
    assert (settings.env.seed, settings.openai.timeout, len(settings.openai.replicas)) == (
        3,
        5.0,
        replicas,
    )
    (message,) = [record.getMessage() for record in caplog.records]
    assert (
        message.startswith(str(path))
        and "env.batch_size" in message
        and "openai.health_check" in message
    )


@pytest.mark.parametrize("text", ["{name}: true", "openai: [{{{name}: true}}]"])
@pytest.mark.parametrize(
    ("name", "instead"), [("slurm", "openai.base_url"), ("testing", "--offline")]
)
def test_what_a_file_asks_for_and_nothing_does_is_refused(
    name: str, instead: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "atropos.yaml"
    path.write_text(text.format(name=name))
    with pytest.raises(SettingsError, match=f"^--{name} .*atropos.yaml.*{instead}"):
        loaded_from(f"--config={path}")


def test_the_page_lists_the_defaults_that_differ() -> None:
    page = (Path(__file__).parents[3] / "docs" / "coming_from_atropos.md").read_text(
        encoding="utf-8"
    )
    assert [
        name for name in OTHER_DEFAULT if f"`{name}`" not in page and name != "openai.api_key"
    ] == []
    assert [name for name in IGNORED if f"`{name}" not in page and name != "openai.weight"] == []


def test_file_without_ignored_settings_is_read_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ours.yaml"
    path.write_text("env: {seed: 3}")
    loaded_from(f"--config={path}")
    assert not caplog.records


@pytest.mark.parametrize("name", IGNORED)
def test_ignored_setting_on_the_command_line_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        loaded_from(f"--{name}=1")


# ---------------------------------------------------------------------------------------------------------
# reasoning


URLS = ["https://api.openai.com/v1", "https://openrouter.ai/api/v1", "http://localhost:8000/v1"]


@pytest.mark.slow
@pytest.mark.parametrize("url", URLS)
def test_reasoning_fields_are_those_of_atropos(url: str) -> None:
    from atroposlib.envs.server_handling.server_baseline import ReasoningConfig

    for effort, tokens in product((None, *get_args(ReasoningEffort)), (None, 1024, 32000)):
        theirs = ReasoningConfig(effort=effort, max_tokens=tokens).build_extra_body(url) or {}
        assert reasoning_body(url, effort=effort, max_reasoning_tokens=tokens) == theirs


@pytest.mark.slow
def test_reasoning_efforts_are_those_of_atropos() -> None:
    from atroposlib.envs.server_handling.server_baseline import VALID_REASONING_EFFORTS

    assert set(get_args(ReasoningEffort)) == VALID_REASONING_EFFORTS
