"""Adapter that gives an environment the interface of Atropos' `BaseEnv`, for Atropos' own loop.

`serve` and `process` do not use it: they lose no group when the API is down, and cancel none in
progress. This module imports atroposlib, which takes seconds; import it only where it is used.

    async with open_session() as session:
        with closing(Clients(settings, session)) as clients:
            await AtroposEnv(MyEnv(settings, clients, verb="serve")).env_manager()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from atroposlib.envs.base import BaseEnv, BaseEnvConfig

from judgegym.data.rows import Task
from judgegym.environments.base import JudgedEnv
from judgegym.environments.contract import load_tasks
from judgegym.environments.evaluate.evaluation import Evaluation, evaluate_during_training
from judgegym.environments.rollouts.groups import JudgedGroup
from judgegym.environments.rollouts.retokenize import Retokenizer
from judgegym.environments.rollouts.sources import open_source
from judgegym.environments.rollouts.token_server import make_server_configs
from judgegym.environments.training.metrics import TrainingMetrics
from judgegym.environments.training.pipeline import GroupPipeline
from judgegym.environments.training.sampler import EpochSampler, RowWeights
from judgegym.llm.ledger import RowLedger
from judgegym.llm.wire import JSON

# These settings shape the requests of Atropos' clients, which are not used;
# our own clients read them from our settings.
_OWN_SETTINGS = {
    "thinking_mode",
    "custom_thinking_prompt",
    "reasoning_effort",
    "max_reasoning_tokens",
}


class AtroposEnv(BaseEnv):  # type: ignore[misc]  # atroposlib has no types
    """Adapter: Atropos' hooks for the next row, a row's group, evaluation and checkpoint."""

    def __init__(self, env: JudgedEnv[Any, Any, Any]) -> None:
        """Wrap `env`, which was made with `verb="serve"`.

        Raises:
            DataError: the rows cannot be loaded.
            SettingsError: the policy's API key is missing, or `token_source` does not fit the
                server type.
        """
        config, settings = env.config, env.settings
        names = (
            BaseEnvConfig.model_fields.keys() & type(config).model_fields.keys()
        ) - _OWN_SETTINGS
        values = {
            **{name: getattr(config, name) for name in names},
            "tokenizer_name": settings.tokenizer,
        }
        super().__init__(BaseEnvConfig(**values), make_server_configs(settings.openai, config))
        self.name = env.spec.name
        self.config.wandb_name = config.wandb_name or env.spec.name
        self._env = env
        self._metrics = TrainingMetrics(env)
        source = open_source(settings, env.clients, Retokenizer(settings.tokenizer))
        self._pipeline = GroupPipeline(env, source, self._metrics)
        self._sampler: EpochSampler[Any] = EpochSampler(
            load_tasks(env, "train"), config.seed, RowWeights.from_config(config)
        )
        self._pipeline.on_group = self._watch
        self._evaluation: Evaluation[Any, Any] | None = None
        self._eval_values: dict[str, float | int] = {}

    def _watch(self, task: Task, group: JudgedGroup, calls: RowLedger | None) -> None:
        """Record in the sampler whether the row of a judged group has a signal."""
        if group.scores is not None or group.is_flat:
            self._sampler.record(task.uid, is_flat=group.is_flat)

    async def setup(self) -> None:
        """Do nothing: the rows are loaded."""

    async def get_next_item(self) -> Any:
        """Return the next row of training."""
        return self._sampler.next()

    async def collect_trajectories(
        self, item: Any
    ) -> tuple[dict[str, JSON] | list[dict[str, JSON]] | None, list[Any]]:
        """Return a row's group, a list of its turns' groups, or `None` if it is dropped.

        Retry nothing.
        """
        groups: list[dict[str, JSON]] = []

        async def collect(group: JudgedGroup) -> None:
            groups.extend(post.data(self._env.config) for post in group.posts(self._env.config))

        self._pipeline.max_token_len = self.max_token_len
        await self._pipeline.run(item, collect)
        self._sampler.ack(item)
        if len(groups) > 1:
            return groups, []
        return next(iter(groups), None), []

    async def evaluate(self, *args: object, **kwargs: object) -> None:
        """Evaluate into a run directory.

        The metrics are logged with the next metrics of training.
        """
        if self._evaluation is None:
            self._evaluation = Evaluation(self._env)
        metrics = await evaluate_during_training(self._evaluation, self.curr_step)
        self._eval_values |= {**metrics.values, "eval/step": self.curr_step}

    async def wandb_log(self, wandb_metrics: dict[str, Any] | None = None) -> None:
        """Log the metrics since the last call, together with Atropos' own."""
        values = self._metrics.flush(max_token_len=self.max_token_len).values
        eval_values, self._eval_values = self._eval_values, {}
        await super().wandb_log({**values, **eval_values, **(wandb_metrics or {})})

    def save_checkpoint(self, step: int, data: Mapping[str, JSON] | None = None) -> None:
        """Save the state of the sampler, too."""
        super().save_checkpoint(step, {"sampler_state": self.sampler_state, **(data or {})})

    @property
    def sampler_state(self) -> Mapping[str, JSON]:
        """State of the sampler; Atropos sets it from a checkpoint."""
        return self._sampler.state_dict()

    @sampler_state.setter
    def sampler_state(self, state: object) -> None:
        self._sampler.load_state_dict(cast("Mapping[str, JSON]", state))
