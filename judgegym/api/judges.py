"""The judges for scripts and notebooks.

Each judge takes its settings as keyword arguments, named as on the command line but without
`--env.`. Call `judge` in async code and `judge_sync` in code without `await`. `docs/own/judge.md`
explains how to write your own judge: a class with `client` and `judge(task)`
(`judgegym.judges.core.judge.Judge`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from judgegym.api.open_judge import Answers, DetailT, OpenJudge
from judgegym.api.results import JudgmentTable
from judgegym.api.session import check_optional_text, check_text, make_sync
from judgegym.judges.arena import ArenaDetail, ArenaJudgeSettings, ArenaTaskJudge
from judgegym.judges.aspects.judge import AspectPanel, PanelDetail
from judgegym.judges.aspects.prompt import AspectJudgeSettings
from judgegym.judges.checklists.criteria import read_criteria
from judgegym.judges.checklists.judge import ChecklistDetail, ChecklistTaskJudge
from judgegym.judges.checklists.prompt import ChecklistJudgeSettings
from judgegym.judges.config.explaining import is_prompt_file
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.judge import Judge
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.parts.cascade import CascadeSettings
from judgegym.judges.parts.composite import CompositeJudgeSettings
from judgegym.judges.parts.jury import JurySettings
from judgegym.judges.parts.part import PartsDetail
from judgegym.judges.parts.steps import StepsSettings
from judgegym.judges.peers import DEFAULT_RUBRIC, PeerDetail, PeerJudgeSettings, PeerTaskJudge
from judgegym.judges.prompt_files.card import load_card
from judgegym.judges.prompt_files.file import Scale
from judgegym.judges.prompt_files.judge import PromptDetail, PromptTaskJudge
from judgegym.judges.prompt_files.settings import PromptJudgeSettings, parse_path
from judgegym.judges.reward_models.judge import RewardDetail, RewardModelJudge, RewardModelSettings
from judgegym.judges.rubrics.judge import RubricDetail, RubricTaskJudge
from judgegym.judges.rubrics.prompt import Rubric, RubricJudgeSettings
from judgegym.judges.rules.judge import RuleDetail, RuleTaskJudge
from judgegym.judges.rules.settings import RuleSettings
from judgegym.judges.scorers.fields import make_judge_task
from judgegym.judges.scorers.opening import open_judge
from judgegym.judges.scorers.registry import TASK_FIELDS, built_in_kind
from judgegym.judges.scorers.sections import flat_settings
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import DataError, SettingsError


class RubricJudge(OpenJudge[RubricDetail], settings=RubricJudgeSettings, factory=RubricTaskJudge):
    """Scores answers by a rubric on its scale, 1 to 5 by default.

    Example:
        >>> judge = RubricJudge("Does the answer name the right number?", offline=True)
        >>> table = judge.judge_sync(
        ...     "How many legs has a spider?", ["Eight.", "Six.", "A spider has eight legs."]
        ... )
        >>> len(table), all(1 <= score <= 5 for score in table.scores)
        (3, True)
        >>> judge.close()
    """

    def __init__(self, rubric: str | Rubric, *, offline: bool = False, **settings: object) -> None:
        """Judge by `rubric`; a text becomes a rubric on the scale of the settings (default 1 to 5).

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        if isinstance(rubric, Rubric):
            settings |= {"scale_min": rubric.scale.low, "scale_max": rubric.scale.high}
        super().__init__(offline=offline, **settings)
        scale = RubricJudgeSettings.model_validate(settings).scale
        self.rubric = rubric if isinstance(rubric, Rubric) else Rubric(rubric, {}, scale)

    async def judge(
        self, question: str, answers: Answers, *, reference: str | None = None
    ) -> JudgmentTable[RubricDetail]:
        """Score each answer; `reference` is an answer that gets the highest score."""
        return await self._judge_answers(question, answers, reference=reference)

    judge_sync = make_sync(judge)

    def _task(self, question: str, answer: str, reference: str | None = None) -> JudgeTask:
        levels = tuple(self.rubric.levels.items())
        return JudgeTask(
            question,
            (answer,),
            check_optional_text(reference, "reference"),
            self.rubric.criteria,
            levels,
        )


class AspectJudge(OpenJudge[PanelDetail], settings=AspectJudgeSettings, factory=AspectPanel):
    """Judges answers by yes/no questions, each decided by a majority of votes: 0 to 1.

    Example:
        >>> with AspectJudge(aspects=["harmfulness", "correctness"], offline=True) as judge:
        ...     table = judge.judge_sync("How many legs has a spider?", ["Eight.", "Six."])
        >>> [aspect.aspect for aspect in table[0].detail.aspects]
        ['harmfulness', 'correctness']
    """

    async def judge(
        self,
        question: str,
        answers: Answers,
        *,
        context: str | None = None,
        reference: str | None = None,
    ) -> JudgmentTable[PanelDetail]:
        """Judge each answer by its aspects.

        The answer should use `context`; `reference` is compared with it.
        """
        return await self._judge_answers(question, answers, context=context, reference=reference)

    judge_sync = make_sync(judge)

    def _task(
        self, question: str, answer: str, context: str | None = None, reference: str | None = None
    ) -> JudgeTask:
        context_text = check_optional_text(context, "context")
        reference_text = check_optional_text(reference, "reference")
        return JudgeTask(question, (answer,), reference_text, context=context_text)


class ChecklistJudge(
    OpenJudge[ChecklistDetail], settings=ChecklistJudgeSettings, factory=ChecklistTaskJudge
):
    """Judges answers by criteria with points of either sign.

    A score is at most 1, and with `formula=healthbench` may be below 0.

    Example:
        >>> cites = {"name": "cites", "text": "Names a source.", "points": 5}
        >>> with ChecklistJudge(criteria=[cites, "Is short."], offline=True) as judge:
        ...     table = judge.judge_sync(
        ...         "How many legs has a spider?", ["Eight, says Linnaeus.", "Six."]
        ...     )
        >>> [criterion.name for criterion in table[0].detail.criteria]
        ['cites', 'criterion_2']
    """

    async def judge(
        self,
        question: str,
        answers: Answers,
        *,
        criteria: object = None,
        reference: str | None = None,
    ) -> JudgmentTable[ChecklistDetail]:
        """Judge each answer by `criteria`, by default those of the settings, and `reference`."""
        return await self._judge_answers(question, answers, criteria=criteria, reference=reference)

    judge_sync = make_sync(judge)

    def _task(
        self, question: str, answer: str, criteria: object = None, reference: str | None = None
    ) -> JudgeTask:
        if isinstance(self.settings, ChecklistJudgeSettings):
            default_criteria = self.settings.criteria
        else:
            default_criteria = ()
        try:
            task_criteria = read_criteria(default_criteria if criteria is None else criteria)
        except ValueError as error:
            raise DataError(f"criteria: {error}") from error
        return JudgeTask(
            question, (answer,), check_optional_text(reference, "reference"), criteria=task_criteria
        )


class PromptJudge(OpenJudge[PromptDetail], settings=PromptJudgeSettings, factory=PromptTaskJudge):
    """Judges answers by your own prompt and scale.

    Example:
        >>> prompt = '''Is the answer right? End with Score: and a number from 1 to 5.
        ... Question: {prompt}
        ... Answer: {response}'''
        >>> with PromptJudge(prompt, scale=(1, 5), offline=True) as judge:
        ...     table = judge.judge_sync("How many legs has a spider?", ["Eight.", "Six."])
        >>> all(1 <= score <= 5 for score in table.scores)
        True
    """

    def __init__(
        self,
        prompt: str | Path,
        *,
        scale: Scale | None = None,
        verdict: Mapping[str, str] | None = None,
        system: str | None = None,
        optional: Sequence[str] = (),
        offline: bool = False,
        **settings: object,
    ) -> None:
        """Judge by a prompt.

        Args:
            prompt: the prompt with placeholders such as {response}, or the path of a prompt file,
                which also has scale and verdict.
            scale: the lowest and the highest score, labels with their scores from 0 to 1, or
                yes/no.
            verdict: where to find the verdict in a reply: {"after": WORD}, {"within": "brackets"}
                or {"field": NAME}; by default after "Score:" on a scale of numbers, and in double
                brackets for labels.
            system: the system message.
            optional: placeholders that may have no text.
            offline: use the stand-in as the judge model.
            settings: `samples_per_item`, `judge_model_name` and so on.

        Raises:
            SettingsError: the prompt or a setting is unknown or wrong.
        """
        if "judge_prompt" in settings:
            raise SettingsError("judge_prompt: pass it as the first argument, prompt")
        judge_prompt: object = prompt
        prompt_settings = {
            "scale": scale,
            "verdict": verdict,
            "system": system,
            "optional": optional or None,
        }
        extra_name = next(
            (name for name, value in prompt_settings.items() if value is not None), None
        )
        if is_prompt_file(str(prompt)):
            if extra_name is not None:
                raise SettingsError(
                    f"{extra_name}: the prompt file {prompt} sets it; pass either a file or a "
                    "prompt with its scale"
                )
            settings = {**_card_settings(parse_path(prompt)), **settings}
        elif scale is None:
            raise SettingsError(
                "scale: a prompt needs one, such as (1, 5), {'bad': 0, 'good': 1} or 'yes/no'"
            )
        else:
            if isinstance(scale, str | Mapping):
                default_verdict = {"within": "brackets"}
            else:
                default_verdict = {"after": "Score:"}
            judge_prompt = {
                "prompt": prompt,
                **prompt_settings,
                "verdict": verdict or default_verdict,
                "optional": optional,
            }
        super().__init__(offline=offline, judge_prompt=judge_prompt, **settings)

    @property
    def _hidden_fields(self) -> frozenset[str]:
        assert isinstance(self.settings, PromptJudgeSettings)
        return frozenset(TASK_FIELDS) - self.settings.shown_names

    async def judge(
        self,
        question: str,
        answers: Answers,
        *,
        reference: str | None = None,
        rubric: str | None = None,
        context: str | None = None,
        baseline: str | None = None,
    ) -> JudgmentTable[PromptDetail]:
        """Judge each answer, with the texts that the prompt shows beside it."""
        texts = {"reference": reference, "rubric": rubric, "context": context, "baseline": baseline}
        return await self._judge_answers(question, answers, **texts)

    judge_sync = make_sync(judge)

    def _task(
        self,
        question: str,
        answer: str,
        reference: str | None = None,
        rubric: str | None = None,
        context: str | None = None,
        baseline: str | None = None,
    ) -> JudgeTask:
        return JudgeTask(
            question,
            (answer,),
            reference=check_optional_text(reference, "reference"),
            rubric=check_optional_text(rubric, "rubric"),
            baseline=check_optional_text(baseline, "baseline"),
            context=check_optional_text(context, "context"),
        )


def _card_settings(path: Path) -> dict[str, object]:
    """Return the settings of a card's judge; none for a plain prompt file, or a wrong one.

    Raises:
        SettingsError: the card is no prompt's.
    """
    try:
        card = load_card(path)
    except ValueError:
        return {}  # the validation of judge_prompt explains it
    if card.prompt_file is None:
        raise SettingsError(f"prompt: {path} is the card of another kind of judge")
    return {name: value for name, value in flat_settings(card.section).items() if name != "judge"}


class ArenaHardJudge(OpenJudge[ArenaDetail], settings=ArenaJudgeSettings, factory=ArenaTaskJudge):
    """Compares answers with a baseline, in both orders: −1 (both games lost) to 1 (both won).

    Example:
        >>> with ArenaHardJudge(offline=True) as judge:
        ...     table = judge.judge_sync(
        ...         "Name a prime.", ["Seven is a prime.", "Nine."], baseline="Eight."
        ...     )
        >>> [label in ("win", "tie", "loss") for label in (judgment.label for judgment in table)]
        [True, True]
    """

    async def judge(
        self, question: str, answers: Answers, *, baseline: str
    ) -> JudgmentTable[ArenaDetail]:
        """Compare each answer with `baseline`."""
        return await self._judge_answers(question, answers, baseline=baseline)

    judge_sync = make_sync(judge)

    def _task(self, question: str, answer: str, baseline: str) -> JudgeTask:
        return JudgeTask(question, (answer,), baseline=check_text(baseline, "baseline"))


class PeerJudge(OpenJudge[PeerDetail], settings=PeerJudgeSettings, factory=PeerTaskJudge):
    """Scores answers from 0 to 100 by a rubric in text.

    Example:
        >>> with PeerJudge(offline=True, judge_critique_rounds=1) as judge:
        ...     table = judge.judge_sync("Name a prime.", "Seven is a prime.")
        >>> 0 <= table.scores[0] <= 100, len(table[0].critique.rounds)
        (True, 1)
    """

    def __init__(
        self, rubric: str = DEFAULT_RUBRIC, *, offline: bool = False, **settings: object
    ) -> None:
        """Judge by `rubric`.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(offline=offline, **settings)
        self.rubric = rubric

    async def judge(self, question: str, answers: Answers) -> JudgmentTable[PeerDetail]:
        """Score each answer."""
        return await self._judge_answers(question, answers)

    judge_sync = make_sync(judge)

    def _task(self, question: str, answer: str) -> JudgeTask:
        return JudgeTask(question, (answer,), rubric=self.rubric)


class RuleJudge(OpenJudge[RuleDetail], settings=RuleSettings, factory=RuleTaskJudge):
    """Scores answers from 0 to 1 by a rule, without a model.

    Example:
        >>> with RuleJudge(rule="number") as judge:
        ...     table = judge.judge_sync(
        ...         "What is 6 * 7?", ["It is 42.", "41", "I do not know."], reference="42"
        ...     )
        >>> table.scores, table[2].detail.says
        ([1.0, 0.0, None], False)
    """

    async def judge(
        self,
        question: str,
        answers: Answers,
        *,
        reference: str | None = None,
        context: str | None = None,
    ) -> JudgmentTable[RuleDetail]:
        """Score each answer.

        A rule compares with `reference`; only your own function reads `context`.
        """
        return await self._judge_answers(question, answers, reference=reference, context=context)

    judge_sync = make_sync(judge)

    def _task(
        self, question: str, answer: str, reference: str | None = None, context: str | None = None
    ) -> JudgeTask:
        context_text = check_optional_text(context, "context")
        return JudgeTask(
            question, (answer,), check_optional_text(reference, "reference"), context=context_text
        )


def _resolve_settings_type(settings: type[JudgeSettings]) -> type[AnyJudgeSettings]:
    """Return the settings of a composed judge as its signature shows them."""
    kind = built_in_kind(settings)
    return AnyJudgeSettings.add_choices((f"judge={kind}",))


class _PartsJudge(OpenJudge[PartsDetail], settings=AnyJudgeSettings, factory=open_judge):
    """A judge made of several judges."""

    async def judge(
        self,
        question: str,
        answers: Answers,
        *,
        reference: str | None = None,
        context: str | None = None,
        rubric: object = None,
        aspects: object = None,
        criteria: object = None,
    ) -> JudgmentTable[PartsDetail]:
        """Score each answer; the parts see the keywords like columns of `judgegym score`."""
        return await self._judge_answers(
            question,
            answers,
            reference=reference,
            context=context,
            rubric=rubric,
            aspects=aspects,
            criteria=criteria,
        )

    judge_sync = make_sync(judge)

    @property
    def _hidden_fields(self) -> frozenset[str]:
        assert isinstance(self.settings, AnyJudgeSettings)
        return frozenset(TASK_FIELDS) - self.settings.shown_fields

    def _task(
        self,
        question: str,
        answer: str,
        reference: str | None = None,
        context: str | None = None,
        rubric: object = None,
        aspects: object = None,
        criteria: object = None,
    ) -> JudgeTask:
        fields = {
            "reference": reference,
            "context": context,
            "rubric": rubric,
            "aspects": aspects,
            "criteria": criteria,
        }
        try:
            return make_judge_task(question, (answer,), fields)
        except ValueError as error:
            raise DataError(str(error)) from error


class RewardJudge(
    _PartsJudge, settings=_resolve_settings_type(CompositeJudgeSettings), factory=open_judge
):
    """Scores answers by a reward of several parts: judges, rules or reward models.

    Example:
        >>> parts = {
        ...     "maths": {"judge": "rule", "rule": "number"},
        ...     "style": {"judge": "rubric", "weight": 0.5},
        ... }
        >>> with RewardJudge(reward=parts, offline=True) as judge:
        ...     table = judge.judge_sync("What is 6 * 7?", ["It is 42.", "41"], reference="42")
        >>> [table[0].detail.parts[0].score, table[1].detail.parts[0].score]
        [1.0, 0.0]
    """

    def __init__(self, *, reward: object, offline: bool = False, **settings: object) -> None:
        """Judge by the parts of `reward`; the settings given here are their defaults.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(
            offline=offline, judge=built_in_kind(CompositeJudgeSettings), reward=reward, **settings
        )


class Jury(_PartsJudge, settings=_resolve_settings_type(JurySettings), factory=open_judge):
    """Scores answers by several judges and combines their scores.

    Example:
        >>> with Jury(["a", {"judge": "aspect"}], jury_rule="median", offline=True) as jury:
        ...     table = jury.judge_sync("What is 6 * 7?", "It is 42.")
        >>> [part.name for part in table[0].detail.parts]
        ['a', 'aspect']
    """

    def __init__(self, judges: object, *, offline: bool = False, **settings: object) -> None:
        """Judge by the members; the settings given here are their defaults.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(
            offline=offline, judge=built_in_kind(JurySettings), judges=judges, **settings
        )


class Cascade(_PartsJudge, settings=_resolve_settings_type(CascadeSettings), factory=open_judge):
    """Scores each answer by a cheap judge, and by a strong one where the cheap one is not sure.

    Example:
        >>> with Cascade(["cheap", "strong"], cascade_threshold=0.6, offline=True) as cascade:
        ...     table = cascade.judge_sync("What is 6 * 7?", "It is 42.")
        >>> table[0].detail.settled_by in ("cheap", "strong")
        True
    """

    def __init__(self, cascade: object, *, offline: bool = False, **settings: object) -> None:
        """Judge by these two judges; the settings given here are their defaults.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(
            offline=offline, judge=built_in_kind(CascadeSettings), cascade=cascade, **settings
        )


class Steps(_PartsJudge, settings=_resolve_settings_type(StepsSettings), factory=open_judge):
    """Scores each step of an agent's trace and combines the scores; a text is one step.

    Example:
        >>> with Steps({"judge": "aspect"}, steps_combine="min", offline=True) as steps:
        ...     table = steps.judge_sync("What is 6 * 7?", "It is 42.")
        >>> [part.name for part in table[0].detail.parts]
        ['step_0']
    """

    def __init__(self, steps_judge: object, *, offline: bool = False, **settings: object) -> None:
        """Judge by this judge; the settings given here are its defaults.

        Raises:
            SettingsError: a setting is unknown or wrong.
        """
        super().__init__(
            offline=offline, judge=built_in_kind(StepsSettings), steps_judge=steps_judge, **settings
        )


class RewardModel(OpenJudge[RewardDetail], settings=RewardModelSettings, factory=RewardModelJudge):
    """Scores answers with a scalar reward model behind a server, in the model's own numbers.

    The scores are the model's own numbers.

    Example:
        >>> judge = RewardModel(offline=True)
        >>> table = judge.judge_sync("Name a prime.", ["Seven is a prime.", "Eight."])
        >>> table.scores[0] > table.scores[1]
        True
        >>> judge.close()
    """

    async def judge(self, question: str, answers: Answers) -> JudgmentTable[RewardDetail]:
        """Request the model's score of each answer; `question` may be a conversation as text."""
        return await self._judge_answers(question, answers)

    judge_sync = make_sync(judge)

    def _task(self, question: str, answer: str) -> JudgeTask:
        return JudgeTask(question, (answer,))


_BUILT_IN_ONLY_SETTINGS = ("judge_critique_rounds", "judge_output", "judge_system_prompt")
"""Settings that only the built-in judges read."""


class OwnJudge(OpenJudge[DetailT], settings=JudgeSettings):
    """Judges answers by your own judge, which takes question and answer as a `JudgeTask`.

    Example:
        >>> from judgegym.judges.peers import PeerJudgeSettings, PeerTaskJudge
        >>> def strict(client):
        ...     return PeerTaskJudge(PeerJudgeSettings(), client, "It is a prime.")
        >>> with OwnJudge(strict, offline=True) as judge:
        ...     table = judge.judge_sync("Name a prime.", ["Seven is a prime.", ""])
        >>> table.scores[0] >= 0, table[1].status.value
        (True, 'invalid_completion')
    """

    def __init__(
        self,
        judge: Callable[[ChatClient], Judge[DetailT]],
        *,
        offline: bool = False,
        offline_prompts: Sequence[str | PromptFormat] = (),
        **settings: object,
    ) -> None:
        """Judge with the result of `judge(client)`, where `judge` is for example the judge's class.

        Args:
            judge: makes the judge from a chat client; it scores `task.response` to `task.prompt`.
            offline: use the stand-in as the judge model.
            offline_prompts: the judge's prompts, for the stand-in; each is defined at the top level
                of a file.
            settings: `judge_model_name`, `judge_base_url` and so on.

        Raises:
            SettingsError: a setting is unknown or wrong, or only built-in judges read it.
        """
        unused_name = next((name for name in _BUILT_IN_ONLY_SETTINGS if name in settings), None)
        if unused_name is not None:
            raise SettingsError(
                f"{unused_name}: only built-in judges read it; your own judge has its own prompt"
            )
        super().__init__(offline=offline, **settings)
        self._offline_prompts = offline_prompts
        self._factory = lambda _, client: judge(client)

    async def judge(self, question: str, answers: Answers) -> JudgmentTable[DetailT]:
        """Judge each answer; a failed judge gives a judgment without a score, with the reason."""
        return await self._judge_answers(question, answers)

    judge_sync = make_sync(judge)

    def _task(self, question: str, answer: str) -> JudgeTask:
        return JudgeTask(question, (answer,))
