"""A judge of one's own for scripts and notebooks, called as the built-in ones are.

What makes a judge is in `docs/own/judge.md`: a class with `client` and `judge(case)`
(`judgegym.judges.core.judge.Judge`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from judgegym.api.judges import OpenJudge, listed
from judgegym.api.results import JudgmentTable
from judgegym.api.session import shows_settings, text
from judgegym.judges.config.judge import JudgeSettings
from judgegym.judges.core.event_loop import BACKGROUND
from judgegym.judges.core.judge import Judge
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError

CaseT = TypeVar("CaseT")
DetailT = TypeVar("DetailT")

_OF_OTHER_JUDGES = ("judge_critique_rounds", "judge_output", "judge_system_prompt")
"""Settings of the built-in judges that no other judge is given."""


@shows_settings(JudgeSettings)
class OwnJudge(OpenJudge[CaseT, DetailT]):
    """Judges answers by a judge of one's own.

    Example:
        >>> from judgegym.judges.peers.judge import PeerCase, peer_judge
        >>> from judgegym.judges.peers.judge import PeerJudgeSettings
        >>> def strict(client):
        ...     return peer_judge(PeerJudgeSettings(), client)
        >>> def case(question, answer):
        ...     return PeerCase(question, answer, "It is a prime.")
        >>> with OwnJudge(strict, case, offline=True) as judge:
        ...     table = judge.judge_sync("Name a prime.", ["Seven is a prime.", ""])
        >>> table.scores[0] >= 0, table[1].status.value
        (True, 'invalid_completion')
    """

    def __init__(
        self,
        judge: Callable[[ChatClient], Judge[CaseT, DetailT]],
        case: Callable[[str, str], CaseT],
        *,
        offline: bool = False,
        offline_prompts: Sequence[str | PromptFormat] = (),
        **settings: object,
    ) -> None:
        """Judge with what `judge` makes of a chat client, such as the class of the judge.

        Args:
            judge: makes the judge.
            case: makes the judge's case of a question and an answer.
            offline: use the stand-in as the judge model.
            offline_prompts: the judge's prompts, for the stand-in: each a name at the top of a file.
            settings: `judge_model_name`, `judge_base_url` and so on.

        Raises:
            SettingsError: a setting is unknown or wrong, or only built-in judges read it.
        """
        idle = next((name for name in _OF_OTHER_JUDGES if name in settings), None)
        if idle is not None:
            raise SettingsError(f"{idle}: only the built-in judges read it; a judge of one's own has its own prompt")
        super().__init__(
            JudgeSettings, settings, lambda _, client: judge(client), offline=offline, offline_prompts=offline_prompts
        )
        self._case = case

    async def judge(self, question: str, answers: str | Sequence[str]) -> JudgmentTable[DetailT]:
        """Judge each answer; a failed judge is a judgment without a score, with the reason."""
        return await BACKGROUND.join(self._judge(listed(answers), self._cases(question, answers)))

    def judge_sync(self, question: str, answers: str | Sequence[str]) -> JudgmentTable[DetailT]:
        """The same as `judge`, in code without `await`."""
        return BACKGROUND.run(self._judge(listed(answers), self._cases(question, answers)))

    def _cases(self, question: str, answers: str | Sequence[str]) -> list[CaseT]:
        asked = text(question, "question")
        return [self._case(asked, answer) for answer in listed(answers)]
