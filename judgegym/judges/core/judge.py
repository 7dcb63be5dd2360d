"""The contract of a judge (a task in, a judgment out), and the base class of single judges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
)

from judgegym.judges import prompts
from judgegym.judges.core.delimiters import Lookalikes, delimit
from judgegym.judges.core.images import check_images, show_images
from judgegym.judges.core.judgment import Judgment, margin
from judgegym.judges.core.tasks import (
    JudgeTask,
    ResponseJudgment,
    TaskJudge,
    make_response_judgment,
)
from judgegym.llm.client import ChatClient
from judgegym.llm.wire import Message

if TYPE_CHECKING:
    from judgegym.judges.config.judge import JudgeSettings
    from judgegym.judges.core.prompt_format import PromptFormat

Confidence = Literal["margin", "orders", "votes", "probability", "members"]
"""The measures of a judge's confidence."""

ShownVerdict: TypeAlias = "str | int | float"
"""A verdict as the critique history shows it."""

DetailT_co = TypeVar("DetailT_co", covariant=True)
DetailT = TypeVar("DetailT")
SettingsT = TypeVar("SettingsT", bound="JudgeSettings")

_LOOKALIKES = Lookalikes("your previous evaluation")


class Judge(Protocol[DetailT_co]):
    """A judge of tasks with one response."""

    @property
    def client(self) -> ChatClient:
        """The client of the judge model."""

    async def judge(self, task: JudgeTask, /) -> Judgment[DetailT_co]:
        """Judge a task.

        A failure is a judgment without a score; a model's reply never raises an error.
        """


class SingleJudge(ABC, Generic[SettingsT, DetailT]):
    """A judge that sees each response by itself."""

    truncates_inputs: ClassVar[bool] = True
    """Whether it shows the texts to a model itself, so that long ones are shortened."""

    def __init__(self, settings: SettingsT, client: ChatClient, rubric: str | None = None) -> None:
        """Set settings and client; `rubric` is for tasks without one."""
        self.settings, self.client, self.rubric = settings, client, rubric
        # Only judges of tasks have this setting; environments do not.
        self.limit: int | None = (
            getattr(settings, "judge_conversation_limit", None) if self.truncates_inputs else None
        )

    @abstractmethod
    async def judge(self, task: JudgeTask) -> Judgment[DetailT]:
        """Judge a task with one response. A judge's reply never raises an error.

        Returns:
            A judgment whose score is in the judge's own range, with `unit` if that is not 0 to 1.
        """

    def check(self, task: JudgeTask) -> None:
        """Check that the judge can be shown the task's images; every other task can be judged."""
        check_images(task, self.client)

    def compares(self, task: JudgeTask) -> bool:
        """Return false: no response is compared with another."""
        return False

    async def judge_task(self, task: JudgeTask) -> Judgment[DetailT]:
        """Judge the response of a task; long texts are shortened.

        A judgment with a score gets the confidence `margin`, and the component `raw` if it has no
        components.
        """
        shortened_task, left_out = task.shorten_to(self.limit)
        with show_images(task):
            judgment = await self.judge(shortened_task)
        if left_out:
            judgment = replace(judgment, left_out=left_out)
        score, unit = judgment.score, judgment.unit_score
        if score is None or unit is None:
            return judgment
        confidences = {"margin": margin(unit), **judgment.confidences}
        return replace(
            judgment, components=judgment.components or {"raw": score}, confidences=confidences
        )

    async def score(self, task: JudgeTask) -> list[ResponseJudgment]:
        """Score the response."""
        judgment = await self.judge_task(task)
        result = make_response_judgment(judgment, judgment.unit_score, judgment.components)
        return [replace(result, verdicts=judgment.verdicts, tags=judgment.tags)]


@dataclass(frozen=True, slots=True)
class PartsDefinition:
    """The parts of a composed kind of judge.

    Attributes:
        setting: the setting that holds them, by their names.
        key: the key that holds them in a section `judge:`; empty if each of `names` is a key
            itself.
        options: each part's settings beside those of its judge, a pydantic model.
        read: parses the setting's value, such as `a,b`, to the parts' settings by name.
        default_kind: the kind of one that names none; `None` if each has to.
        names: the parts' names, such as `cheap` and `strong`, if they are fixed.
    """

    setting: str
    key: str
    options: type[Any]
    read: Callable[[object], object]
    default_kind: str | None = "rubric"
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgeDefinition:
    """A kind of judge: built in, of an entry point, or of a Python file.

    Attributes:
        settings: its settings.
        about: what it does, for `--help`.
        judge: opens the judge with the settings, the client of the judge model, and the rubric of
            tasks without one; for a composed kind the third argument is its parts.
        prompts: its prompts with plausible replies, for the offline stand-in.
        fields: the fields of a task that it is shown, of those in `TASK_FIELDS`.
        reads_rubric: whether it uses the setting `rubric` for tasks without a rubric.
        most_together: maximum number of responses that it compares; `None` if it sees each by
            itself.
        asks_endpoint: whether it calls a model; otherwise it needs no endpoint, key or price.
        unused_settings: common judge settings that it does not read; they are refused.
        has_baselines: whether it sees each response by itself if the task has a baseline, though it
            compares responses without one.
        group_settings: a subclass of `settings`, with the settings it reads when it compares
            responses.
        parts: the parts of a composed judge; `None` for any other.
        confidences: its confidence measures for cascades, beside the margin of its score.
    """

    settings: type[JudgeSettings]
    about: str
    judge: Callable[[Any, ChatClient, Any], TaskJudge]  # the first argument has the type `settings`
    prompts: tuple[PromptFormat, ...] = ()
    fields: frozenset[str] = frozenset()
    reads_rubric: bool = False
    most_together: int | None = None
    asks_endpoint: bool = True
    unused_settings: frozenset[str] = frozenset()
    has_baselines: bool = False
    group_settings: type[JudgeSettings] | None = None
    parts: PartsDefinition | None = None
    confidences: frozenset[Confidence] = frozenset()

    @property
    def needs_group(self) -> bool:
        """Whether a single response gets no score."""
        return self.most_together is not None and not self.has_baselines

    @property
    def judges_aspects(self) -> bool:
        """Whether its verdicts are yes or no on aspects."""
        return "aspects" in self.fields


class Revision(NamedTuple):
    """A revised verdict as the history shows it, its reasons, and the critique before it."""

    verdict: ShownVerdict
    reasoning: str
    critique: str


class CritiqueRequest(NamedTuple):
    """A request to critique and revise one verdict of a judgment.

    Attributes:
        component: which verdict of the judgment, such as `game_1`; empty if there is only one.
        verdict: the verdict before the critique.
        reasoning: its reasons.
        messages: the request to critique and revise it.
    """

    component: str
    verdict: ShownVerdict
    reasoning: str
    messages: Sequence[Message]


def critique_messages(prompt: Sequence[Message], text: str) -> list[Message]:
    """Build the prompt of a critique.

    It is the judge's prompt, its evaluation, and the request to critique and revise that.

    It begins with the judge's unchanged prompt, which a server with a prefix cache has already
    computed.

    Args:
        prompt: the judge's prompt; its last message is the user's.
        text: the judge's response, without its thinking.
    """
    *earlier, last = prompt
    delimited = delimit((text,), _LOOKALIKES, delimited=(last["content"],))
    markers, (shown_text,) = delimited.markers, delimited.texts
    title = f"YOUR PREVIOUS EVALUATION{markers.suffix}:"
    parts = [
        last["content"],
        f"{markers.notice}{title}\n{shown_text}\nEND OF {title}",
        prompts.load("critique"),
    ]
    return [*earlier, Message(role="user", content="\n\n".join(parts))]
