"""Open the judge named by settings, with all its parts."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from judgegym.judges.config.batches import configure_batch
from judgegym.judges.config.endpoint import STAND_IN_IDENTITY
from judgegym.judges.core.tasks import TaskJudge
from judgegym.judges.parts.part import Part
from judgegym.judges.prompt_files.settings import PromptJudgeSettings
from judgegym.judges.scorers.own_kinds import CODE_SETTINGS, DIGEST, has_changed
from judgegym.judges.scorers.settings import AnyJudgeSettings, PartSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError

logger = logging.getLogger(__name__)


def open_judge(settings: AnyJudgeSettings, client: ChatClient) -> TaskJudge:
    """Open the judge that the settings name.

    A part has its own client if its calls have other settings.

    Raises:
        SettingsError: the judge is `FILE.py:NAME`, and the file has changed since it ran here or
            since the settings were made.
    """
    judge = settings.definition
    prompt = settings.match_settings(PromptJudgeSettings)
    _check_code(settings)
    if prompt is not None and settings.rubric is not None and "rubric" not in prompt.shown_names:
        logger.warning("rubric: nothing reads it, because the prompt file has no {rubric}")
    if judge.parts is None:
        return judge.judge(settings, client, settings.rubric)
    parts = tuple(
        _open_part(part, f"{judge.parts.setting}.", client) for part in settings.part_settings
    )
    return judge.judge(settings, client, parts)


def _check_code(settings: AnyJudgeSettings) -> None:
    """Check that the judge's code is the one of the settings, and the one that ran in this process.

    Raises:
        SettingsError: the code differs.
    """
    fields = settings.definition.settings.model_fields
    for name in CODE_SETTINGS & fields.keys():
        if getattr(settings, name) != fields[name].default:
            if name == DIGEST:
                mismatch = "has another digest here"
            else:
                mismatch = "is of another package here"
            raise SettingsError(f"{name}: {settings.judge} {mismatch}, {fields[name].default}")
    if DIGEST in fields and has_changed(settings.judge):
        raise SettingsError(
            f"judge: {settings.judge} has changed since it ran in this process; restart the process"
        )


def _open_part(part: PartSettings, section: str, client: ChatClient) -> Part[Any]:
    """Open a part's judge; it shares the client unless its calls have other settings."""
    settings, parent = part.settings, client.settings
    if settings.asks_endpoint and settings.definition.parts is None:
        has_own_rules = "judge_finish_reasons" in settings.model_fields_set
        if parent.identity == STAND_IN_IDENTITY:
            settings = settings.replace_endpoint(
                parent.endpoints[0].base_url, parent.endpoints[0].model
            )
        chat = settings.chat_settings(
            retry_delay=parent.retry_delay_s,
            identity=parent.identity,
            section=f"{section}{part.name}.",
        )
        if parent.batch is not None:
            chat = configure_batch(chat, parent.batch)
        has_own_rules |= chat.finish_rules.accepted != parent.finish_rules.accepted
        if (
            has_own_rules
            or replace(chat, finish_rules=parent.finish_rules, section=parent.section) != parent
        ):
            client = client.sibling(chat)
    judge: Any = open_judge(settings, client)
    return Part(part.name, part.options, judge, may_abstain=not settings.asks_endpoint)
