"""`--plan` of `evaluate`, `process` and `serve`: the calls and the cost of a run, without a call.

The run's own environment processes a sample of its rows or groups (`judgegym.engine.plan`). Of a
run to resume, files are only read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from judgegym.data.task_list import select
from judgegym.engine import terminal
from judgegym.engine.completions import Clients, Conversation, read_completion
from judgegym.engine.plan.client import DryRun
from judgegym.engine.plan.earlier import EarlierRun
from judgegym.engine.plan.estimate import PlanEstimate, draw_rows, estimate, estimate_anchors
from judgegym.engine.plan.lines import format_total
from judgegym.engine.plan.planning import PlanOptions, PlanSource, plan_run, planning
from judgegym.engine.records import read_sample
from judgegym.engine.runs.damaged_lines import read_lines
from judgegym.engine.runs.directory import SAMPLES, locate_run_directory
from judgegym.engine.settings import EnvSettings
from judgegym.environments.base import JudgedEnv
from judgegym.environments.command_line.arguments import EnvType
from judgegym.environments.command_line.offline import STAND_IN_URL, list_stand_ins
from judgegym.environments.contract import load_tasks, open_environment
from judgegym.environments.evaluate.evaluation import Evaluation
from judgegym.environments.rollouts.groups import JudgedGroup, Rollout, TokenSequence
from judgegym.environments.rollouts.sampling import roll_out
from judgegym.environments.rollouts.sources import TOKEN_FIELDS
from judgegym.environments.training.monitoring import make_monitor_context, make_monitor_group
from judgegym.environments.training.sampler import EpochSampler
from judgegym.environments.training.signal_meter import check_signal_settings, judge_again
from judgegym.judges.config.budgets import BUDGETS
from judgegym.judges.config.endpoint import STAND_IN_IDENTITY
from judgegym.judges.core.judgment import CallRun
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.llm.errors import SettingsError
from judgegym.llm.http.exchange import open_session
from judgegym.llm.ledger import record_calls
from judgegym.monitoring.opening import open_gold
from judgegym.offline.answers import load_known_prompts, load_prompts

SERVE_GROUPS = 1_000
"""Assumed number of groups: `serve` has none of its own; the trainer takes what its steps need."""


async def show_plan(env_type: EnvType, settings: EnvSettings[Any]) -> None:
    """Print the plan of a run.

    Raises:
        UserError: the run would not begin either: the data or the settings are wrong, or the run
            cannot be read.
    """
    prompts = env_type.spec.offline_prompts
    formats = chain.from_iterable(
        (prompt,) if isinstance(prompt, PromptFormat) else load_prompts(prompt)
        for prompt in prompts
    )
    dry = DryRun(
        parts=frozenset(getattr(settings.env, "part_names", ())),
        formats=(*formats, *load_known_prompts(settings)),
    )
    options = PlanOptions(
        tokens=settings.plan,
        is_offline=settings.offline,
        seed=settings.env.seed,
        budget=settings.env,
        batch_share=settings.env.batch_share,
        run=_find_resumed_run(settings),
    )
    async with _open_env(env_type, settings, dry) as env:
        source = _Evaluation(env, dry) if settings.verb == "evaluate" else _Groups(env, dry)
        plan = await plan_run(source, dry, options)
    terminal.say("\n".join(plan.lines()))


@asynccontextmanager
async def _open_env(
    env_type: EnvType, settings: EnvSettings[Any], dry: DryRun
) -> AsyncIterator[JudgedEnv[Any, Any, Any]]:
    """Open the environment with clients that count calls."""
    identity = STAND_IN_IDENTITY if settings.env.judge_base_url == STAND_IN_URL else ""
    settings = settings.use_stand_ins(
        list_stand_ins(settings), env=settings.env, openai=settings.openai
    )
    with planning():
        async with open_session() as session:
            opened = Clients(
                settings, session, judge_identity=identity, make=dry.open, make_cache=dry.open_cache
            )
            with closing(opened) as clients:
                yield open_environment(env_type, settings, clients, settings.verb)


def _find_resumed_run(settings: EnvSettings[Any]) -> Path | None:
    """Return the directory of the run that is resumed; `None` for a new one."""
    if not settings.resume:
        return None
    if settings.verb == "evaluate":
        directory = settings.env.data_dir_to_save_evals
        if directory is None:
            return None
        return Path(directory).expanduser()
    groups = settings.env.data_path_to_save_groups
    if groups is None:
        return None
    return locate_run_directory(Path(groups).expanduser())


class _Evaluation(PlanSource):
    """The rows of `evaluate`."""

    def __init__(self, env: JudgedEnv[Any, Any, Any], dry: DryRun) -> None:
        """Load all rows; errors are those of `Evaluation`."""
        self._evaluation, self._dry = Evaluation(env), dry
        self._tasks, self._finished = self._evaluation.tasks, 0

    def left(self, run: Path | None) -> Sequence[int]:
        """See `PlanSource`."""
        finished = set[str]()
        if run is not None:
            finished = {sample.uid for _, sample in read_lines(run / SAMPLES, read_sample)}
        left = [index for index, task in enumerate(self._tasks) if task.uid not in finished]
        self._finished = len(self._tasks) - len(left)
        return left

    def uid(self, number: int) -> str:
        """See `PlanSource`."""
        return str(self._tasks[number].uid)

    async def step(self, earlier: EarlierRun, number: int) -> None:
        """See `PlanSource`."""
        with record_calls(earlier.row(self.uid(number)).begin()):
            await self._evaluation.runner.finish(self._tasks[number])

    async def estimate_rest(self, run: Path | None) -> PlanEstimate:
        """See `PlanSource`."""
        return await estimate_anchors(self._dry, self._evaluation.anchor_judge, run)

    @property
    def head(self) -> Iterator[tuple[str, str]]:
        """See `PlanSource`."""
        rows = len(self._tasks)
        yield "rows", f"{rows:,}"
        if self._finished:
            yield "finished already", f"{self._finished:,} rows"


class _Groups(PlanSource):
    """The groups of `process` and `serve`; `serve` makes as many as its trainer takes."""

    unit = "group"

    def __init__(self, env: JudgedEnv[Any, Any, Any], dry: DryRun) -> None:
        """Load all rows.

        Raises:
            UserError: the rows cannot be loaded, or a client cannot be opened.
        """
        self._env, self._dry, config = env, dry, env.config
        self._is_process = env.settings.verb == "process"
        self._count = SERVE_GROUPS
        if self._is_process:
            self._count = config.total_steps
        if self._count < 1:
            raise SettingsError(
                f"--env.total_steps: process needs the number of groups, got {config.total_steps}"
            )
        tasks = select(load_tasks(env, "train"), limit=env.settings.limit, seed=config.seed)
        self._sampler, self._tasks = EpochSampler[Any](tasks, config.seed), list[Any]()
        chat = env.settings.openai.chat_settings(
            config, max_concurrency=env.settings.openai.num_max_requests_at_once
        )
        self._policy = env.clients.open(
            "policy", replace(chat, limit_setting="--env.train_max_tokens")
        )
        self._gold = open_gold(
            config, config.seed, replace(make_monitor_context(env, None), make=dry.open)
        )
        check_signal_settings(config)
        self._evaluation: PlanEstimate | None = None
        self._signal: PlanEstimate | None = None
        self._groups: dict[int, JudgedGroup] = {}

    def left(self, run: Path | None) -> Sequence[int]:
        """See `PlanSource`: what an earlier run has made comes from its ledger."""
        return range(self._count)

    def uid(self, number: int) -> str:
        """See `PlanSource`."""
        return str(self._task(number).uid)

    def _task(self, number: int) -> Any:
        """Return the row of a group; rows come in the order of the run."""
        while len(self._tasks) <= number:
            self._tasks.append(self._sampler.next())
        return self._tasks[number]

    async def step(self, earlier: EarlierRun, number: int) -> None:
        """See `PlanSource`; a group is shown to the gold judge, too."""
        task = self._task(number)
        # The groups of a trainer's later steps are of another policy: none has answers of an
        # earlier run.
        row = None
        if self._is_process:
            row = earlier.row(task.uid, number).begin()
        with record_calls(row):
            group = await roll_out(self._env, self._sample, task)
            if self._env.config.signal_groups:
                self._groups[number] = group
            if self._gold is not None:
                self._gold.offer(
                    make_monitor_group(self._env, task, group, number=number + 1, step=number + 1)
                )
                await self._gold.drain()

    async def _sample(self, conversation: Conversation, n: int) -> tuple[list[Rollout], CallRun]:
        """Sample rollouts without tokens."""
        config, client = self._env.config, self._policy
        options: Any = {
            "temperature": config.rollout_temperature,
            "max_tokens": config.train_max_tokens,
            "name": "policy",
        }
        extra = None
        if client.has_recorded_response(conversation, extra=TOKEN_FIELDS, **options):
            extra = TOKEN_FIELDS
        answer = await client.chat(conversation, n=n, extra=extra, **options)
        no_tokens = TokenSequence((), (), None)
        rollouts = [
            Rollout(read_completion(choice, config), no_tokens, choice.text)
            for choice in answer.choices
        ]
        return rollouts, CallRun()

    async def estimate_rest(self, run: Path | None) -> PlanEstimate:
        """Estimate the second judgments, and an evaluation during training: they are no groups."""
        if not self._is_process and self._env.config.steps_per_eval > 0:
            rows = _Evaluation(self._env, self._dry)
            left = rows.left(None)
            chosen = draw_rows(left, self._env.config.seed)
            self._evaluation = await estimate(
                self._dry, partial(rows.step, EarlierRun()), chosen, len(left)
            )
        if not self._groups:
            return PlanEstimate()
        count = min(self._env.config.signal_groups, self._count)
        plan_estimate = await estimate(self._dry, self._judge_again, [*self._groups], count)
        self._signal = replace(plan_estimate, rows=0, counted=0)
        return self._signal

    async def _judge_again(self, number: int) -> None:
        """Judge a group a second time, as the signal meter does."""
        await judge_again(self._env, self._task(number), self._groups[number], number)

    @property
    def head(self) -> Iterator[tuple[str, str]]:
        """See `PlanSource`."""
        config = self._env.config
        example = ", as an example"
        if self._is_process:
            example = ""
        yield "groups", f"{self._count:,} of {config.group_size:,} completions{example}"
        if self._signal is not None:
            groups = min(config.signal_groups, self._count)
            total = format_total(self._signal.total)
            yield "judged twice", f"{groups:,} groups (signal_groups): {total}, included"
        if self._evaluation is not None:
            total = format_total(self._evaluation.total)
            yield "an evaluation", f"{total}, once in {config.steps_per_eval:,} steps, on top"

    @property
    def notes(self) -> Iterator[str]:
        """See `PlanSource`."""
        config = self._env.config
        if not self._is_process:
            yield (
                "serve makes groups as long as the trainer has steps: each step takes its batch "
                f"size / {config.group_size} (group_size) of them."
            )
        if config.gold_judge.keys() & {*BUDGETS}:
            yield "The gold judge has a budget of its own, which may end it earlier."
        if config.ensure_scores_are_not_same:
            yield (
                "Groups whose rewards are all equal are dropped, and others made in their place, "
                "on top."
            )
