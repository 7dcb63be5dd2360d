"""Arena-Hard with several candidates: a tournament with the baseline, or each against the baseline.

In a row all candidates answer at once, then they play.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from pathlib import Path

from judgegym.engine.completions import Clients, Completion
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.records import Sample
from judgegym.engine.runs.disk import write_atomic
from judgegym.engine.settings import EnvSettings
from judgegym.engine.settings.verbs import Verb
from judgegym.engine.terminal import Table
from judgegym.engine.terminal.summary import Outcome
from judgegym.eval_environments.arena import report
from judgegym.eval_environments.arena.environment import (
    BASELINE,
    ArenaEnv,
    ArenaHardConfig,
    ArenaHardTask,
)
from judgegym.eval_environments.arena.matches import AgainstBaseline, Tournament
from judgegym.eval_environments.arena.ratings import (
    CandidateAnswer,
    RowGame,
    RowGames,
    list_played_games,
    sum_points,
)
from judgegym.eval_environments.arena.standings import (
    Standings,
    add_metrics,
    name_bounds,
    name_winrate,
    record_positions,
)
from judgegym.eval_environments.models import (
    Candidate,
    CandidatesRunner,
    ModelSettings,
    open_candidates,
    select_models,
)
from judgegym.judges.arena import ArenaTaskJudge
from judgegym.judges.config.extras import require
from judgegym.judges.core.calls import failed_judgment
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.tournament.schedule import PairJudge, TournamentSettings
from judgegym.llm.client import ChatClient
from judgegym.llm.errors import SettingsError


class ArenaCandidatesRunner(CandidatesRunner[ArenaHardTask, RowGames, CandidateAnswer]):
    """Runner of the rows of an evaluation of candidates."""

    def __init__(self, env: ArenaCandidatesEnv) -> None:
        """Compare the environment's candidates."""
        super().__init__(env)
        self._arena = env

    @property
    def candidates(self) -> Sequence[Candidate]:
        """The candidates."""
        return self._arena.candidates

    def prepare(self, tasks: Sequence[ArenaHardTask]) -> None:
        """Open the candidates, and read the answers that are in files and run directories."""
        super().prepare(tasks)
        self.asks_policy = any(candidate.asks_endpoint for candidate in self.candidates)

    @property
    def rows_in_flight(self) -> int:
        """Maximum number of rows in progress: enough to reach the limits of all endpoints."""
        limits = (
            model.max_concurrency for model in self._arena.models if model.base_url is not None
        )
        return self._arena.config.judge_max_concurrency + max(limits, default=0)

    def plan(self, tasks: Sequence[ArenaHardTask]) -> str | None:
        """Describe the planned run: reused runs and the number of calls."""
        rows = len(tasks)
        endpoint_count = sum(candidate.asks_endpoint for candidate in self.candidates)
        games = rows * self._arena.match.count_row_games(len(self.candidates))
        candidate_count = len(self.candidates)
        answer_count = rows * endpoint_count
        counts = (
            f"{rows} rows, {candidate_count} candidates: {answer_count} answers to ask for, "
            f"{games} games"
        )
        return "\n".join([*self.notices, counts])

    async def read_reply(
        self, task: ArenaHardTask, candidate: str, reply: Completion | str
    ) -> CandidateAnswer:
        """Make a candidate's answer from its reply."""
        return CandidateAnswer.from_reply(candidate, reply)

    def find_answer_error(self, answer: CandidateAnswer) -> str | None:
        """Return why a candidate has not answered."""
        if answer.answer is None:
            return answer.error
        return None

    async def judge_answers(
        self, task: ArenaHardTask, answers: Sequence[CandidateAnswer]
    ) -> Judgment[RowGames]:
        """Judge the games of the candidates that have answered."""
        return await self._arena.judge_answers(task, answers)

    def is_complete(self, sample: Sample[RowGames]) -> bool:
        """Return whether every game has a result, and every endpoint's candidate an answer."""
        if not sample.finished or sample.judgment is None or sample.judgment.detail is None:
            return False
        row = sample.judgment.detail
        endpoint_names = {
            candidate.name for candidate in self.candidates if candidate.asks_endpoint
        }
        missing = any(
            answer.answer is None for answer in row.answers if answer.candidate in endpoint_names
        )
        return not missing and len(row.decided) == len(row.games)

    def write_report(
        self, path: Path, rows: Sequence[tuple[ArenaHardTask, Sample[RowGames]]]
    ) -> Sequence[Table]:
        """Write `ratings.csv` and `win_rates.csv`, and return the tables to show."""
        if not rows:
            return ()
        standings = self._arena.standings
        write_atomic(path / "ratings.csv", report.make_ratings_csv(standings))
        write_atomic(path / "win_rates.csv", report.make_win_rates_csv(standings))
        return [report.make_ratings_table(standings), report.make_win_rates_table(standings)]


class ArenaCandidatesEnv(ArenaEnv[RowGames]):
    """Compares several candidates with each other and with the baseline.

    The headline is the share of points that the candidates take from the baseline: every row has
    one, and it tells how all candidates together compare. Ratings and the win rates of pairs tell
    candidates apart.
    """

    spec = replace(
        ArenaEnv.spec,
        headline=("overall_winrate", "candidates' win rate"),
        metric_notes={
            "overall_winrate": "of all candidates together against the baseline; "
            "their ratings tell them apart"
        },
        outcomes=(
            Outcome.from_metric("both orders agree", "position_agreement_rate"),
            Outcome.from_metric("wrong answers", "wrong_answers", unit="count", is_fault=True),
            Outcome.from_metric("missing answers", "missing_answers", unit="count", is_fault=True),
            Outcome.from_metric(
                "games without verdict", "games_failed", unit="count", is_fault=True
            ),
            Outcome.from_metric(
                "without a baseline", "prompts_without_baseline", unit="count", is_fault=True
            ),
        ),
    )

    def __init__(
        self, settings: EnvSettings[ArenaHardConfig], clients: Clients, *, verb: Verb
    ) -> None:
        """Build the judge of the games.

        Raises:
            SettingsError: there are no candidates, or a setting does not apply to games between
                candidates.
        """
        config = settings.env
        if not select_models(config.candidates, settings):
            raise SettingsError(
                "--env.candidates_play: there are no candidates; name models with "
                "--env.candidates (YAML or a JSON list)"
            )
        if config.cluster_winrates:
            raise SettingsError(
                "--env.cluster_winrates: win rates of clusters are for one model only; leave out "
                "candidates"
            )
        if config.candidates_play == "tournament" and config.judge_critique_rounds:
            raise SettingsError(
                "--env.judge_critique_rounds: games of a tournament have no self-critique; "
                f"expected 0, found {config.judge_critique_rounds}, or use "
                "--env.candidates_play=baseline"
            )
        require("statistics")
        super().__init__(settings, clients, verb=verb)
        self.match: Tournament | AgainstBaseline
        if config.candidates_play == "tournament" and isinstance(config, TournamentSettings):
            self.match = Tournament(PairJudge(config, clients.judge), config)
        else:
            self.match = AgainstBaseline(
                ArenaTaskJudge(config, clients.judge), config.judge_protocol
            )

    async def judge(
        self, task: ArenaHardTask, completions: Sequence[Completion]
    ) -> Judgment[RowGames]:
        """Judge the games between the completions, one for each candidate, in their order."""
        pairs = zip(self.candidates, completions, strict=True)
        return await self.judge_answers(
            task, [CandidateAnswer.from_reply(candidate.name, text) for candidate, text in pairs]
        )

    @cached_property
    def candidates(self) -> Sequence[Candidate]:
        """The models that answer.

        Raises:
            SettingsError: an API key is missing.
        """

        def get_model_client(model: ModelSettings) -> ChatClient:
            timeout_s = self.settings.openai.timeout
            return self.clients.open(
                "policy", model.chat_settings(self.config, timeout_s=timeout_s)
            )

        return open_candidates(self.models, self.config, get_model_client)

    @cached_property
    def models(self) -> Sequence[ModelSettings]:
        """The settings of the candidates."""
        return select_models(self.config.candidates, self.settings)

    def record_metrics(
        self, metrics: MetricAggregator, task: ArenaHardTask, sample: Sample[RowGames]
    ) -> None:
        """Record points against the baseline and each other, and the effect of positions."""
        games = list_played_games(sample.judgment)
        baseline_points, weight = sum_points(BASELINE, games)
        if weight:
            metrics.ratio(self.spec.headline[0], weight - baseline_points, weight, interval=True)
        by_pair: dict[frozenset[str], list[RowGame]] = {}
        for game in games:
            by_pair.setdefault(frozenset((game.first, game.second)), []).append(game)
        for first, second in combinations([*(model.name for model in self.models), BASELINE], 2):
            points, weight = sum_points(first, by_pair.get(frozenset((first, second)), ()))
            if weight:
                metrics.ratio(name_winrate(first, second), points, weight, interval=True)
        record_positions(metrics, [game for game in games if game.decided == "judge"])

    def summarise(
        self, metrics: MetricAggregator, rows: Sequence[tuple[ArenaHardTask, Sample[RowGames]]]
    ) -> None:
        """Record ratings, numbers of games and answers, and costs by candidate."""
        metrics.number("prompts_without_baseline", self.prompts_without_baseline)
        for task, sample in rows:
            self.standings.add(sample, task.baseline)
        add_metrics(metrics, self.standings)

    def row_runner(self) -> ArenaCandidatesRunner:
        """Return the runner that plays the candidates' games for one row."""
        return ArenaCandidatesRunner(self)

    async def judge_answers(
        self, task: ArenaHardTask, answers: Sequence[CandidateAnswer]
    ) -> Judgment[RowGames]:
        """Judge the games of a row.

        The score is the candidates' mean share of points, from 0 to 1.
        """
        names = {candidate.name for candidate in self.candidates if candidate.asks_endpoint}
        names |= {answer.candidate for answer in answers if answer.answer is not None}
        players = [answer for answer in answers if answer.candidate in names]
        result = await self.match.play(task, players)
        row = RowGames(tuple(answers), result.games)
        tallies = {
            player.candidate: sum_points(player.candidate, row.decided) for player in players
        }
        shares = {name: points / weight for name, (points, weight) in tallies.items() if weight}
        errors = "; ".join(
            f"{game.first} and {game.second}: {game.error}" for game in row.games if game.error
        )
        if not shares:
            return failed_judgment(result.calls, explanation=errors, detail=row)
        return Judgment(
            sum(shares.values()) / len(shares),
            Status.OK,
            explanation="\n".join(
                [*(f"{name}: {share:.3f} of the points" for name, share in shares.items()), errors]
            ),
            calls=result.calls,
            detail=row,
            suspects=result.suspects,
        )

    def expect_metrics(self, metrics: MetricAggregator, tasks: Sequence[ArenaHardTask]) -> None:
        """Reset the standings, and declare the metrics of players, pairs and positions."""
        candidates = {model.name: model.base_url is not None for model in self.models}
        self.standings = Standings(
            candidates, seed=self.config.seed, style=self.config.style_control
        )
        metrics.expect("no candidate has met the baseline", *name_bounds(self.spec.headline[0]))
        for first, second in combinations(self.standings.players, 2):
            metrics.expect("they have not met", *name_bounds(name_winrate(first, second)))
        metrics.expect("no game was judged", "first_position_advantage")
        metrics.expect("no pair was judged in both orders", "position_agreement_rate")

    def record_failure(
        self, metrics: MetricAggregator, task: ArenaHardTask, sample: Sample[RowGames]
    ) -> None:
        """Add the cost of a failed row and its missing answers."""
        self.standings.add(sample, None)
