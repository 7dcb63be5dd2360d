"""What a policy would be asked for, where its responses are what is judged."""

from __future__ import annotations

from collections.abc import Sequence

from judgegym.datasets.rows.units import ScoreTasks
from judgegym.datasets.sample.sampling import conversation_of
from judgegym.datasets.score.plan.costs import cost_of
from judgegym.datasets.score.plan.earlier import RemainingTasks
from judgegym.datasets.score.plan.numbers import PolicyPlan, Range
from judgegym.datasets.score.settings import ScoreSettings
from judgegym.llm.tokens import count_tokens
from judgegym.llm.usage import Prices


def policy_plan(
    settings: ScoreSettings, units: ScoreTasks, left: RemainingTasks, counted: Sequence[int]
) -> PolicyPlan | None:
    """Count what the policy would be asked; `None` if none is asked.

    Args:
        settings: the policy.
        units: the prompts.
        left: those that are left.
        counted: those of them whose tokens are counted.
    """
    each, longest = settings.responses_per_prompt, settings.eval_max_tokens
    if each is None:
        return None
    tokens = 0.0
    for number in counted:
        asked = units[number].to_sample
        assert asked is not None  # the units of a run that samples are made so
        tokens += sum(count_tokens(message["content"]) for message in conversation_of(asked.turns, settings))
    prompts = tokens * len(left.units) / max(1, len(counted))
    together = each if settings.openai.n_kwarg_is_ignored else 1
    held = left.earlier.held_responses
    calls = Range(max(0, together * len(left.units) - held), max(0, each * len(left.units) - held))
    share = calls.high / (each * len(left.units)) if calls.high else 0.0
    responses = each * len(left.units) * share
    of_prompts = Range(together * prompts, each * prompts).times(share)
    of_responses = Range(responses, responses * longest if longest else None)
    policy = settings.openai
    prices = Prices(policy.price_input, policy.price_output, policy.price_cached_input)
    return PolicyPlan(calls, of_prompts, of_responses, cost_of(prices, of_prompts, of_responses))
