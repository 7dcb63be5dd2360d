"""Arena-Hard with several candidates: a tournament of them and the baseline, or each against the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations

from judgegym.engine.completions import Completion, Policy
from judgegym.engine.metrics import MetricAggregator
from judgegym.engine.records import Sample
from judgegym.engine.terminal.outcomes import Outcome
from judgegym.eval_environments.arena.candidate_metrics import add_metrics, record_positions, winrate_name, with_bounds
from judgegym.eval_environments.arena.candidates_runner import ArenaCandidatesRunner
from judgegym.eval_environments.arena.environment import ArenaEnv
from judgegym.eval_environments.arena.games import CandidateAnswer, GamesOfRow, RowGame, Tally, games_of
from judgegym.eval_environments.arena.matches import AgainstBaseline, Match, Player, Tournament
from judgegym.eval_environments.arena.rows import ArenaHardTask
from judgegym.eval_environments.arena.settings import BASELINE
from judgegym.eval_environments.arena.standings import Standings
from judgegym.eval_environments.models.candidate import Candidate, CandidateReply
from judgegym.eval_environments.models.endpoints import ModelSettings, offline_models
from judgegym.judges.arena.judge import arena_judge
from judgegym.judges.config.extras import require
from judgegym.judges.core.calls import failed_judgment
from judgegym.judges.core.judgment import Judgment, Status
from judgegym.judges.tournament.game import pair_judge
from judgegym.llm.errors import SettingsError


class ArenaCandidatesEnv(ArenaEnv[GamesOfRow]):
    """Several candidates' answers, compared with each other and with the baseline's.

    The headline is the share of points that the candidates take from the baseline: every row has a share of it, and it
    tells how the field as a whole compares. What tells candidates apart are their ratings, and the win rates of pairs.
    """

    headline = ("overall_winrate", "candidates' win rate")
    metric_notes = {
        "overall_winrate": "of all candidates together against the baseline; their ratings tell them apart",
    }

    def open_judges(self) -> None:
        """Make the judge of the games.

        Raises:
            SettingsError: there are no candidates, or a setting is given that games between candidates do not have.
        """
        config = self.config
        if not self.models:
            raise SettingsError(
                "--env.candidates_play: who plays? Name models with --env.candidates (YAML or a JSON list)"
            )
        if config.cluster_winrates:
            raise SettingsError("--env.cluster_winrates: win rates of clusters are of one model; leave out candidates")
        if config.candidates_play == "tournament" and config.judge_critique_rounds:
            raise SettingsError(
                f"--env.judge_critique_rounds: games of a tournament have no self-critique; expected 0, found "
                f"{config.judge_critique_rounds}. --env.candidates_play=baseline has it"
            )
        require("statistics")
        self.match: Match
        if config.candidates_play == "tournament":
            self.match = Tournament(pair_judge(config, self.clients.judge), config)
        else:
            self.match = AgainstBaseline(arena_judge(config, self.clients.judge), config.judge_protocol)

    @cached_property
    def models(self) -> Sequence[ModelSettings]:
        """Return the settings of the candidates; with --offline and without candidates, three stand-ins."""
        if self.config.candidates or "policy" not in self.settings.stand_ins:
            return self.config.candidates
        return offline_models(self.settings.openai.base_url)

    @cached_property
    def candidates(self) -> Sequence[Candidate]:
        """Return the models that answer.

        Raises:
            SettingsError: an API key is missing.
        """
        return [Candidate(model.name, self._policy(model), self.config, answers=model.answers) for model in self.models]

    def _policy(self, model: ModelSettings) -> Policy | None:
        if model.base_url is None:
            return None
        chat_settings = model.policy_settings(self.config, timeout_s=self.settings.openai.timeout)
        return Policy(self.clients.open_policy(chat_settings), self.config)

    def row_runner(self) -> ArenaCandidatesRunner:
        """Evaluate a row to the games of the candidates that have answered."""
        return ArenaCandidatesRunner(self)

    async def judge(self, task: ArenaHardTask, completions: Sequence[Completion]) -> Judgment[GamesOfRow]:
        """Let completions play, one of each candidate."""
        said = zip(self.candidates, completions, strict=True)
        answers = tuple(CandidateAnswer.of(candidate.name, CandidateReply(text)) for candidate, text in said)
        return await self.judge_answers(task, answers)

    async def judge_answers(self, task: ArenaHardTask, answers: tuple[CandidateAnswer, ...]) -> Judgment[GamesOfRow]:
        """Let those answers play that are there; the score is the mean share of points of the candidates, 0 to 1."""
        asked = {candidate.name for candidate in self.candidates if candidate.asks_endpoint}
        players = [
            Player(answer.candidate, answer.answer, answer.is_wrong)
            for answer in answers
            if answer.answer is not None or answer.candidate in asked
        ]
        played = await self.match.play(task, players)
        row = GamesOfRow(answers, played.games)
        tallies = {player.name: Tally.of(player.name, row.decided) for player in players}
        shares = {name: tally.points / tally.weight for name, tally in tallies.items() if tally.weight}
        errors = "; ".join(f"{game.first} and {game.second}: {game.error}" for game in row.games if game.error)
        if not shares:
            return failed_judgment(played.calls, explanation=errors, detail=row)
        return Judgment(
            sum(shares.values()) / len(shares),
            Status.OK,
            explanation="\n".join([*(f"{name}: {share:.3f} of the points" for name, share in shares.items()), errors]),
            calls=played.calls,
            detail=row,
            suspects=played.suspects,
        )

    def outcomes(self) -> Sequence[Outcome]:
        """Show the agreement of both orders, wrong answers, and what is missing."""
        return (
            Outcome.of("both orders agree", "position_agreement_rate"),
            Outcome.of("wrong answers", "wrong_answers", unit="count", is_fault=True),
            Outcome.of("missing answers", "missing_answers", unit="count", is_fault=True),
            Outcome.of("games without verdict", "games_failed", unit="count", is_fault=True),
            Outcome.of("without a baseline", "prompts_without_baseline", unit="count", is_fault=True),
        )

    def expect_metrics(self, metrics: MetricAggregator, tasks: Sequence[ArenaHardTask]) -> None:
        """Begin without a row, and name the metrics of players, pairs and positions."""
        candidates = {model.name: model.base_url is not None for model in self.models}
        self.standings = Standings(candidates, seed=self.config.seed, style=self.config.style_control)
        metrics.expect("no candidate has met the baseline", *with_bounds(self.headline[0]))
        for one, other in combinations(self.standings.players, 2):
            metrics.expect("they have not met", *with_bounds(winrate_name(one, other)))
        metrics.expect("no game was judged", "first_position_advantage")
        metrics.expect("no pair was judged in both orders", "position_agreement_rate")

    def record_metrics(self, metrics: MetricAggregator, task: ArenaHardTask, sample: Sample[GamesOfRow]) -> None:
        """Record the points that candidates take from the baseline and from each other, and what position does."""
        games = games_of(sample.judgment)
        lost = Tally.of(BASELINE, games)
        if lost.weight:
            metrics.ratio(self.headline[0], lost.weight - lost.points, lost.weight, interval=True)
        by_pair: dict[frozenset[str], list[RowGame]] = {}
        for game in games:
            by_pair.setdefault(frozenset((game.first, game.second)), []).append(game)
        for one, other in combinations([*(model.name for model in self.models), BASELINE], 2):
            tally = Tally.of(one, by_pair.get(frozenset((one, other)), ()))
            if tally.weight:
                metrics.ratio(winrate_name(one, other), tally.points, tally.weight, interval=True)
        record_positions(metrics, [game for game in games if game.decided == "judge"])

    def record_failure(self, metrics: MetricAggregator, task: ArenaHardTask, sample: Sample[GamesOfRow]) -> None:
        """Count what the row cost, and what is missing in it."""
        self.standings.add_failure(sample)

    def summarise(self, metrics: MetricAggregator, rows: Sequence[tuple[ArenaHardTask, Sample[GamesOfRow]]]) -> None:
        """Record ratings, numbers of games and answers, and costs by candidate."""
        metrics.number("prompts_without_baseline", self.prompts_without_baseline)
        for task, sample in rows:
            self.standings.add(sample, task.baseline)
        add_metrics(metrics, self.standings)
