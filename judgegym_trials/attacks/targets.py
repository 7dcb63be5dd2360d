"""Rows that attacks are made of: each row's twin, its repeat, and the row under each attack.

A judge that sees each response alone gets only the response. A judge that compares responses gets
the row's group, with the attacked response in its position among the same others; the twin is then
the unattacked group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from judgegym.datasets.rows.tasks import ScoreTasks
from judgegym.engine.plan.planning import open_dry_judge
from judgegym.judges.core.seeding import make_generator
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.scorers.settings import AnyJudgeSettings
from judgegym.llm.errors import DataError
from judgegym.llm.wire import is_blank
from judgegym_trials.attacks.forger import PLACEHOLDER, Forger
from judgegym_trials.attacks.suite import REPEAT, TWIN, Attack
from judgegym_trials.judged_rows import DerivedRows


@dataclass(frozen=True, slots=True)
class Target:
    """A row to attack.

    Attributes:
        number: the row's number in the data, from 1.
        task: the row's task, with one response or with the group that is judged together.
        place: the index of the attacked response among the task's responses.
        has_twin: whether the row has a response of its own.
    """

    number: int
    task: JudgeTask
    place: int = 0
    has_twin: bool = True

    @property
    def response(self) -> str:
        """The response before the attack; empty without a twin."""
        if self.has_twin:
            return self.task.responses[self.place]
        return ""

    def replace_response(self, text: str) -> JudgeTask:
        """Return the task with this text as the attacked response."""
        responses = [*self.task.responses]
        responses[self.place] = text
        return self.task.replace_responses(responses, self.task.places)


def make_target_uid(kind: str, target: Target) -> str:
    """Return the id of a derived row: its kind and the number of the row.

    The kind is `twin`, `repeat` or the name of an attack.
    """
    return f"{kind}/{target.number}"


def select_targets(tasks: ScoreTasks, settings: AnyJudgeSettings) -> list[Target]:
    """Return the rows to attack; rows with an empty response are left out.

    If a row has several responses that are judged one by one, one that is not preferred is drawn.

    Raises:
        DataError: no row can be attacked.
    """
    judge = open_dry_judge(settings)
    targets = []
    for read in tasks.iter_judgeable():
        task, row = read.judge_task, read.rows[0] + 1
        if read.to_sample is not None:
            if not judge.compares(task.replace_responses((TWIN,))):
                targets.append(Target(row, task.replace_responses(("",)), has_twin=False))
            continue
        places = [
            place for place in range(read.chosen, read.count) if not is_blank(task.responses[place])
        ]
        if not places:
            continue
        place = make_generator(settings.seed, str(row), "response under attack").choice(places)
        if judge.compares(task):
            targets.append(Target(row, task, place))
        else:
            targets.append(Target(row, task.replace_responses((task.responses[place],))))
    if not targets:
        raise DataError(
            "no row can be attacked: expected rows with a response that is not empty (a judge that "
            "compares responses needs several in a row, or a baseline)"
        )
    return targets


async def derive_rows(
    targets: Sequence[Target], attacks: Sequence[Attack], settings: AnyJudgeSettings
) -> tuple[DerivedRows, list[Attack], list[Attack]]:
    """Derive the rows to judge: all twins and repeats, then attack by attack.

    A new attack is added after the others, so that a resumed run keeps its paid judgments.

    Args:
        targets: the rows to attack.
        attacks: the attacks.
        settings: the judge's settings.

    Returns:
        The rows, the attacks that are made, and those that do not apply to this judge.
    """
    forger = Forger(settings)
    forged = [await forger.forge(target.replace_response(PLACEHOLDER)) for target in targets]
    has_prompt = any(forged)
    with_twin = [target for target in targets if target.has_twin]
    made, left_out = list[Attack](), list[Attack]()
    for attack in attacks:
        can_be_made = attack.replaces or bool(with_twin)
        is_for_judge = attack.applies_to({settings.judge, *settings.kinds}) and (
            has_prompt or not attack.needs_prompt
        )
        if can_be_made and is_for_judge:
            made.append(attack)
        else:
            left_out.append(attack)
    rows = {make_target_uid(TWIN, target): target.task for target in with_twin}
    rows |= {
        make_target_uid(REPEAT, target): replace(target.task, repeat=1) for target in with_twin
    }
    for attack in made:
        for target, texts in zip(targets, forged, strict=True):
            text = attack.apply(target.task.prompt, target.response, texts)
            rows[make_target_uid(attack.name, target)] = target.replace_response(text)
    return rows, made, left_out
