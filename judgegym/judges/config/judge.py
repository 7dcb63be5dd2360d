"""A judge's settings, with the same `judge_*` names in every environment, data set and server.

Guarantee: unset settings stay unset, so that a mount or a group judge does not inherit a default
    that a judge has chosen.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import SecretStr, field_validator, model_validator
from typing_extensions import Self

from judgegym.judges.config.endpoint import (
    ANTHROPIC,
    CALL_NAMES,
    MAX_RETRIES,
    STAND_IN_IDENTITY,
    EndpointSettings,
    SettingNames,
    flat_names,
)
from judgegym.judges.config.explaining import TextOrFile, prompt_digest
from judgegym.judges.config.field_types import (
    BaseUrls,
    ExtraBody,
    ExtraHeaders,
    FinishReasons,
    ModelName,
)
from judgegym.judges.config.fields import operational, setting
from judgegym.judges.config.thinking import ThinkingSettings
from judgegym.judges.parsing.verdict_parser import VerdictForm
from judgegym.llm.cost.models import DEFAULT_JUDGE
from judgegym.llm.providers import ApiName
from judgegym.llm.types import ChatSettings, ImageUse

logger = logging.getLogger(__name__)

VOTE_TEMPERATURE = 0.7
"""Default temperature for several votes on one verdict; at 0 all votes would be the same."""


JudgeOutput = Literal["text", "json_schema"]
_CONSTRAINTS = frozenset(
    {"response_format", "json_schema", "grammar", "structured_outputs", "regex", "ebnf"}
    | {"guided_json", "guided_regex", "guided_choice", "guided_grammar"}
)
"""Request fields that set another form of a response."""


class JudgeSettings(
    ThinkingSettings, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
):
    """The settings that every judge has: endpoint, sampling, prompt and self-critique.

    An unknown setting is an error. Each judge's package subclasses it with its own settings;
    environments and the reward server inherit those.
    """

    help_group: ClassVar[str] = "judge"
    how_to_gather: ClassVar[str] = ""
    """The advice on gathering single responses, for the message about a single response."""

    judge_model_name: ModelName = setting(DEFAULT_JUDGE, common=True)
    """Ask for this model at the judge's endpoint."""
    judge_base_url: BaseUrls = operational(ANTHROPIC, common=True)
    """Call the judge at this OpenAI-compatible URL; separate several replicas with commas."""
    judge_api: ApiName = operational("openai", common=True)
    """Call the judge with this API. openai: OpenAI's chat completions, which most servers support.
    anthropic: Anthropic's Messages API, with separate thinking and prefix caching. litellm: any
    model that litellm supports, such as azure/…, bedrock/…, vertex_ai/… or gemini/…; judge_base_url
    is used only if it is set. decisions: typed questions to a decision model, answered with
    probabilities (judges aspect, checklist, rubric, choice); judge_base_url is the whole URL. If
    unset, anthropic for the default judge with its key in
    ANTHROPIC_API_KEY."""
    judge_api_key: SecretStr | None = operational(None, fallback="judge_api_key_env")
    """Send this API key to the judge. Prefer judge_api_key_env, which keeps the key off the command
    line."""
    judge_api_key_env: str = operational("ANTHROPIC_API_KEY", common=True)
    """Read the judge's API key from this environment variable. Only public hosts need a key."""
    judge_temperature: float = setting(0.2, common=True, ge=0)
    """Sample the judge at this temperature. If unset, several votes or samples of one judgment use
    0.7."""
    judge_max_tokens: int = setting(4096, ge=0)
    """Limit the judge's response to this many tokens; 0 sends no limit."""
    judge_max_retries: int = operational(MAX_RETRIES, ge=0)
    """Retry a failed judge call at most this many times; waiting for a busy or unreachable judge
    does not count."""
    judge_timeout: float = operational(300.0, gt=0)
    """Stop one attempt of a judge call after this many seconds."""
    judge_deadline: float = operational(900.0, gt=0)
    """Stop retrying a judge call this many seconds after its first attempt; the call then fails.
    Time in which the judge is unreachable does not count; if this is set, it also limits that
    wait."""
    endpoint_away_deadline: float = operational(600.0, ge=0, common=True, group="run")
    """Wait at most this many seconds for an endpoint, judge or policy, that has responded before
    and now refuses connections; its calls then fail."""
    wait_for_endpoints: float = operational(60.0, ge=0, group="run")
    """Wait at most this many seconds for an endpoint, judge or policy, that has never responded in
    this run and refuses connections, or whose host is unknown; the command then ends with exit code
    2. Raise it if the endpoint starts at the same time as the run."""
    endpoint_rejected_deadline: float = operational(120.0, ge=0, group="run")
    """If an endpoint, judge or policy, rejects ten requests in a row with HTTP 401, 402, 403 or
    404, or because the account has no credit, send no new requests and retry one, with growing
    pauses, for this many seconds; the command then ends with exit code 1 and can be resumed."""
    judge_max_concurrency: int = operational(256, ge=1)
    """Send the judge at most this many requests at once; the limit is halved while it responds with
    429 or 503."""
    judge_requests_per_minute: int | None = operational(None, ge=1)
    """Send the judge at most this many requests a minute; no limit if unset."""
    judge_tokens_per_minute: int | None = operational(None, ge=1)
    """Use at most this many tokens of the judge a minute, prompts included; no limit if unset."""
    judge_cache: Path | None = operational(None)
    """Cache judgments in this SQLite file and reuse them; several runs may share it. Off if
    unset."""
    judge_extra_body: ExtraBody = setting({})
    """Add these fields to each request to the judge, such as {"reasoning_effort": "low"}."""
    judge_extra_headers: ExtraHeaders = operational({})
    """Send these headers with each request to the judge: NAME=VALUE, or JSON. Their values are
    secrets and saved in no file; give them again to resume a run."""
    judge_finish_reasons: FinishReasons = operational([])
    """Accept these further finish reasons of the judge's endpoint as a whole response. Known ones
    are stop, end_turn, eos_token, complete and the like; a response with an unknown one is
    requested again."""
    judge_output: JudgeOutput = setting("text")
    """Choose the form of a verdict. text: as the prompt says. json_schema: a JSON object, reasons
    first, whose schema the endpoint enforces (response_format); an endpoint that refuses it gets
    text. For a policy that judges, set openai.extra_body."""
    judge_price_input: float | None = operational(None, ge=0)
    """Compute the judge's cost with this price in US dollars for a million prompt tokens. If no
    price is set, the table of list prices is used; a model outside it has an unknown cost."""
    judge_price_output: float | None = operational(None, ge=0)
    """Compute the judge's cost with this price in US dollars for a million completion tokens. If no
    price is set, the table of list prices is used; a model outside it has an unknown cost."""
    judge_price_cached_input: float | None = operational(None, ge=0)
    """Compute the judge's cost with this price in US dollars for a million prompt tokens from the
    endpoint's prefix cache. If unset, they cost as much as other prompt tokens, and the cost is an
    upper bound."""
    judge_images: ImageUse = operational("auto")
    """Choose how rows with images are handled. auto: send images to the judge until its endpoint
    refuses them, which is remembered for the run. yes: always send them. no: refuse such rows, for
    a judge that reads only text. No row is judged without its images."""
    judge_image_max_side: int = setting(1568, ge=0)
    """Scale images (except those given as URLs) down to this many pixels of the longer side before
    sending them to the judge; this needs Pillow (extra images). 0 sends them unchanged."""
    judge_critique_rounds: int = setting(0, ge=0)
    """Let the judge critique and revise its own judgment in this many rounds, one call each."""
    judge_system_prompt: TextOrFile | None = setting(None)
    """Use this text instead of the judge's built-in system prompt; @file reads it from a file, byte
    for byte."""
    seed: int = setting(0, ge=0, common=True, group="run")
    """Seed every random choice (rows, orders of answers, votes, bootstrap); equal seeds give equal
    choices."""

    @field_validator("judge_model_name")
    @classmethod
    def _is_one_name(cls, value: str) -> str:
        if "," in value:
            raise ValueError(
                f"{value!r} would be sent as the name of one model; expected one name. Commas "
                "separate replicas of one "
                "model in judge_base_url; several judges are for `judgegym evaluate self_critique` "
                "(--env.judges)"
            )
        return value

    @model_validator(mode="after")
    def _set_vote_temperature(self) -> Self:
        if self.vote_count() > 1 and "judge_temperature" not in self.model_fields_set:
            self.judge_temperature = VOTE_TEMPERATURE
            # Not set by the user: a mount inherits only the user's settings, so not this one.
            self.model_fields_set.discard("judge_temperature")
        return self

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        conflicts = sorted(_CONSTRAINTS & self.judge_extra_body.keys())
        if self.judge_output != "text" and conflicts:
            conflict_list = ", ".join(conflicts)
            raise ValueError(
                f"judge_extra_body: judge_output={self.judge_output} already sets the form of a "
                f"response; leave out {conflict_list}"
            )
        return self

    @property
    def gathers(self) -> bool:
        """Whether single responses are gathered, so that the judge must compare responses."""
        return False

    def form(self, form: VerdictForm | None) -> VerdictForm | None:
        """Return the form, if verdicts are requested as JSON objects."""
        if self.judge_output == "text":
            return None
        return form

    @property
    def asks_endpoint(self) -> bool:
        """Whether the judge calls a model; otherwise it needs no endpoint, key or price."""
        return True

    def judge_name(self) -> str:
        """Return who judges, for results and file names: the model, if one is called."""
        return self.judge_model_name

    @property
    def endpoint(self) -> EndpointSettings:
        """The endpoint of its model; unused if the judge calls no model."""
        owner = type(self).model_fields["judge_base_url"].default
        return EndpointSettings.model_construct(set(), key_host=owner).add(self, FLAT_NAMES)

    def vote_count(self) -> int:
        """Return the number of votes on one verdict; judges with several votes override it."""
        return 1

    def built_in_prompt(self) -> str:
        """Return the prompt that `judge_system_prompt` replaces; each judge overrides it."""
        return ""

    def instructions(self) -> str:
        """Return the prompt in use: `judge_system_prompt`, or the built-in one."""
        if self.judge_system_prompt is None:
            return self.built_in_prompt()
        return self.judge_system_prompt

    def prompt_digests(self) -> dict[str, str]:
        """Return digests of the prompts in use, by the setting that replaces them."""
        return {"judge_system_prompt": prompt_digest(self.instructions())}

    @property
    def client_settings(self) -> JudgeSettings:
        """The settings of this judge's client: its own, unless it is a composed judge."""
        return self

    def replace_endpoint(self, url: str, model: str) -> Self:
        """Return a copy for another endpoint without a key, such as a stand-in."""
        return self.model_copy(
            update={"judge_base_url": url, "judge_model_name": model, "judge_api_key": None}
        )

    def chat_settings(
        self, *, retry_delay: float = 1.0, identity: str = "", section: str = "env."
    ) -> ChatSettings:
        """Return the settings of the judge's chat client.

        Args:
            retry_delay: upper bound of the pause before the first retry, in seconds.
            identity: identifies the endpoint in the cache's key, in place of its URL.
            section: the prefix of these settings on the command line, for messages.

        Raises:
            SettingsError: the endpoint needs a key and none is set.
        """
        settings = (
            self if identity == STAND_IN_IDENTITY else self.client_settings
        )  # a stand-in answers for all parts
        if settings is not self:
            return settings.chat_settings(
                retry_delay=retry_delay, identity=identity, section=section
            )
        votes = self.vote_count()
        if votes > 1 and self.judge_temperature == 0:
            logger.warning("%d votes at temperature 0 are %d times the same vote", votes, votes)
        return self.endpoint.chat_settings(
            SettingNames("the judge", f"--{section}judge_", section),
            retry_delay=retry_delay,
            identity=identity,
            thinking_markers=self.added_markers,
            unasked=None if self.asks_endpoint else self.judge_name(),
        )

    def fill_in(self, flat_settings: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
        """Fill in the unset settings of a judge that is part of this one.

        Args:
            flat_settings: its flat settings.
            names: the settings that it may inherit.
        """
        endpoint = EndpointSettings.model_construct(
            **{
                name: flat_settings[flat]
                for name, flat in FLAT_NAMES.items()
                if flat in flat_settings
            }
        )
        endpoint = endpoint.inherit(self.endpoint)
        inherited = self.model_fields_set & {*names} - {*FLAT_NAMES.values()}
        return {
            **{name: getattr(self, name) for name in inherited},
            **flat_settings,
            **{FLAT_NAMES[name]: getattr(endpoint, name) for name in endpoint.model_fields_set},
        }


FLAT_NAMES: Mapping[str, str] = {**flat_names(JudgeSettings, "judge_"), **CALL_NAMES}
"""The flat settings of a judge's endpoint, by the endpoint's names."""


PromptLayout = Literal["published", "shared_first"]


class PromptLayoutSettings(JudgeSettings):
    """The settings of a judge whose prompt has two layouts.

    vLLM, SGLang and the hosted APIs compute a prefix shared by several prompts only once, and
    charge less for it. `published` is the order of the benchmark, paper or specification that a
    judge follows. In `shared_first` everything that the prompts of one row share comes first, and
    the judged completion last.
    """

    judge_prompt_layout: PromptLayout = setting("published")
    """Choose the order of the judge's prompt. published: that of the benchmark or paper.
    shared_first: everything that the completions of one prompt share comes first, the completion
    last, so that a server's prefix cache computes the shared part once; results are then not
    comparable with published ones. If unset, shared_first for a single aspect, which has no
    published order, and published for all other judges."""

    @model_validator(mode="after")
    def _set_default_layout(self) -> Self:
        if "judge_prompt_layout" not in self.model_fields_set:
            self.judge_prompt_layout = self.default_layout()
            # Not set by the user: a mount inherits only the user's settings, so not this one.
            self.model_fields_set.discard("judge_prompt_layout")
        return self

    def default_layout(self) -> PromptLayout:
        """Return the layout if the user chose none; judges may override it."""
        return "published"


class ReaskSettings(JudgeSettings):
    """The settings of a judge that is asked again in the same conversation."""

    judge_reask: int = setting(1, ge=0)
    """If a judge's response has no verdict, ask again in the same conversation, at most this many
    times."""
