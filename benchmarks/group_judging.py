"""How well the rewards of a tournament follow the quality of the answers, and for how many calls: a simulation.

The tournament is the real one (`judgegym.judges.tournament`); only the judge of a game is
simulated. Quality is drawn from a normal distribution with deviation 1. Of the games that are no
tie, the first answer i wins against j with probability σ(β·(quality i − quality j) + 0.5), the 0.5
being the judge's preference for the first. By Davidson's model (1970) a tie is the likelier, the
closer the game: 10 % of the games that are open (`--ties near`). With `--ties random` every game is
a tie with probability 10 %, whoever plays, so that a tie says nothing. 1 % of the games fail, for
good.

A figure is the mean over groups of the correlation (Pearson) between reward and quality within a
group; a group whose rewards are all equal counts as 0. Games of the same answers and order have the
same result in each schedule. The required figures are for G = 8; those of swiss are met with
balanced orders, and missed by up to 0.01 with both. Lost is an answer without a score. The error of
a figure is in brackets behind the groups. All schedules judge the same groups, so that their
figures err together. Means for β = 1.5 and 3 over seeds 1 to 4 (1000 groups each), and seeds 11 to
15 (400 groups each; in brackets the lowest and the highest of these, for β = 1.5):

    circular                0.605 0.732    0.603 0.729 (0.591 to 0.616)
    swiss, both orders      0.812 0.905    0.807 0.903 (0.804 to 0.810)
    swiss, balanced orders  0.815 0.910    0.813 0.907 (0.809 to 0.819)
    all pairs once          0.834 0.917    0.831 0.915 (0.824 to 0.841)
    all pairs both ways     0.906 0.949    0.902 0.947 (0.900 to 0.904)

All pairs are thus 0.001 to 0.006 above what is required for β = 1.5, and a seed may miss it. Ties
at random cost 0.01
to 0.04: then the requirements are not met.

    python -m benchmarks.group_judging [--groups 1000] [--ties near|random] [--results FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev
from typing import Literal

from benchmarks.measured import Measured, report, results_option
from judgegym.judges.core.judgment import CallRun, JudgeCall
from judgegym.judges.core.tasks import JudgeTask
from judgegym.judges.tournament.progress import TournamentGroupJudge
from judgegym.judges.tournament.schedule import GameResult, TournamentSettings
from judgegym.llm.client import ChatClient
from judgegym.statistics.agreement import correlation
from judgegym.statistics.bradley_terry import GameOutcome, fit

Ties = Literal["near", "random"]

BETAS = (1.5, 3.0)
FIRST = 0.5
TIE_RATE, FAILURE_RATE = 0.1, 0.01


@dataclass(frozen=True)
class Kind:
    """A schedule, and the figures that are required of it at G = 8 for each β; none for a variant."""

    name: str
    settings: TournamentSettings
    required: tuple[float, ...] = ()


def settings(**given: object) -> TournamentSettings:
    return TournamentSettings.model_validate({"judge_base_url": "http://127.0.0.1:1/v1", **given})


KINDS = (
    Kind("circular", settings(schedule="circular", game_orders="balanced"), (0.59, 0.70)),
    Kind("balanced, both orders", settings(schedule="balanced")),
    Kind("swiss, both orders", settings(schedule="swiss")),
    Kind(
        "swiss, balanced orders", settings(schedule="swiss", game_orders="balanced"), (0.81, 0.90)
    ),
    Kind("all pairs once", settings(schedule="all", game_orders="balanced"), (0.83, 0.91)),
    Kind("all pairs both ways", settings(schedule="all"), (0.90, 0.94)),
)


@dataclass
class SimulatedJudge:
    """Decides the games of one group by chance; answers are named by their numbers.

    Attributes:
        failed: the answers of which a game has failed.
    """

    client: ChatClient
    quality: dict[str, float]
    beta: float
    ties: Ties
    seed: str
    games: int = 0
    failed: set[str] = field(default_factory=set)

    async def play(self, task: JudgeTask, first: str, second: str, *, name: str) -> GameResult:
        self.games += 1
        chance = random.Random(f"{self.seed}/{name}")
        call = JudgeCall[object](name, "", None, None, None, CallRun())
        if chance.random() < FAILURE_RATE:
            self.failed |= {first, second}
            return GameResult(None, error="the call failed", calls=(call,))
        lead = self.beta * (self.quality[first] - self.quality[second]) + FIRST
        return GameResult(self._points(lead, chance), calls=(call,))

    def count_suspects(self, task: JudgeTask, answer: str) -> int:
        return 0

    def _points(self, lead: float, chance: random.Random) -> float:
        win, loss = math.exp(lead / 2), math.exp(-lead / 2)
        tie = (2.0 if self.ties == "near" else win + loss) * TIE_RATE / (1 - TIE_RATE)
        drawn = chance.random() * (win + tie + loss)
        return 1.0 if drawn < win else 0.5 if drawn < win + tie else 0.0


@dataclass(frozen=True)
class Figures:
    """What was measured over groups: mean correlation, its standard error, games, and answers lost of how many."""

    correlation: float
    error: float
    games: float
    lost: int
    answers: int
    in_failed_games: int


async def simulate(
    kind: Kind, size: int, beta: float, groups: int, *, ties: Ties = "near", seed: int = 0
) -> Figures:
    """Judge so many groups of one size."""
    correlations: list[float] = []
    games = lost = in_failed_games = 0
    client = ChatClient(kind.settings.chat_settings())  # nobody asks it
    try:
        for number in range(groups):
            name = f"{seed}/{size}/{number}"
            chance = random.Random(name)
            quality = {str(answer): chance.gauss(0.0, 1.0) for answer in range(size)}
            judge = SimulatedJudge(client, quality, beta, ties, name)
            task = JudgeTask(f"question {number}", tuple(quality))
            judged = await TournamentGroupJudge(kind.settings, judge.client, games=judge).judge(
                task
            )
            scores = [member.score for member in judged.members]
            correlations.append(_correlation(scores, [*quality.values()]))
            games += judge.games
            lost += scores.count(None)
            in_failed_games += len(judge.failed)
    finally:
        await client.close()
    error = pstdev(correlations) / math.sqrt(groups)
    return Figures(fmean(correlations), error, games / groups, lost, groups * size, in_failed_games)


def _correlation(scores: Sequence[float | None], quality: Sequence[float]) -> float:
    pairs = [
        (score, true) for score, true in zip(scores, quality, strict=True) if score is not None
    ]
    found = correlation("pearson", [score for score, _ in pairs], [true for _, true in pairs])
    return found if isinstance(found, float) else 0.0


def correlations(kind: Kind, size: int, figures: Sequence[Figures], groups: int) -> list[Measured]:
    """The lines of one schedule and size, for each β."""
    found = []
    for place, (beta, each) in enumerate(zip(BETAS, figures, strict=True)):
        is_required = size == 8 and bool(kind.required)
        found.append(
            Measured(
                "tournament",
                f"G={size}, β={beta:g}, {kind.name}, {each.games:.2f} calls, {groups} groups "
                f"(±{each.error:.3f})",
                "correlation of reward and quality",
                each.correlation,
                "required" if is_required else "quality itself",
                kind.required[place] if is_required else 1.0,
                at_least=1.0 if is_required else None,
            )
        )
    return found


def answers_kept(size: int, figures: Sequence[Figures]) -> list[Measured]:
    """How many answers have a score, over all schedules of a size."""
    answers = sum(each.answers for each in figures)
    scored = 1 - sum(each.lost for each in figures) / answers
    whole = 1 - sum(each.in_failed_games for each in figures) / answers
    work = f"G={size}, all schedules, 1 % of the games failed, {answers} answers"
    unit = "share of answers with a score"
    return [
        Measured("tournament", work, unit, scored, "all", 1.0, at_least=1.0),
        Measured("tournament", work, unit, scored, "if a failed game cost both its answers", whole),
    ]


def time_of_fit(players: int) -> Measured:
    """How long the fit of all games of a group takes, in both orders of all pairs."""
    chance = random.Random(players)
    games = [
        GameOutcome(one, other, chance.choice((0.0, 0.5, 1.0)))
        for one in range(players)
        for other in range(players)
        if one != other
    ]
    fit(players, games)  # imports
    times = []
    for _ in range(10):
        started = time.perf_counter()
        fit(players, games)
        times.append((time.perf_counter() - started) * 1000)
    return Measured(
        "tournament",
        f"fit of {len(games)} games of {players}",
        "ms",
        min(times),
        "a call of 1 s",
        1000.0,
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--groups", type=int, default=1000, help="of 8; of 16 a fifth (default: %(default)s)"
    )
    parser.add_argument(
        "--ties", choices=("near", "random"), default="near", help="(default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    results_option(parser)
    arguments = parser.parse_args(argv)
    for size, groups in ((8, arguments.groups), (16, max(arguments.groups // 5, 1))):
        everything: list[Figures] = []
        for kind in KINDS:
            figures = [
                asyncio.run(
                    simulate(kind, size, beta, groups, ties=arguments.ties, seed=arguments.seed)
                )
                for beta in BETAS
            ]
            report(correlations(kind, size, figures, groups), arguments.results)
            everything += figures
        report(answers_kept(size, everything), arguments.results)
    report(map(time_of_fit, (8, 16, 64)), arguments.results)


if __name__ == "__main__":
    main()
