"""What the specification's documents promise of each environment, word for word where it is a text.

`DEVIATIONS` are the only defaults that differ, each with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Verb = Literal["evaluate", "serve", "process"]

THINKING_OF_JUDGES = """\
You are a deep thinking AI, you may use extremely long chains of thought to deeply consider the problem and deliberate \
with yourself via systematic reasoning processes to help come to a correct solution prior to answering. You should \
enclose your thoughts and internal monologue inside <think> </think> tags, and then provide your solution or response \
to the problem.
You are allowed to monologue in freeform at times, but the majority of your reasoning must be done using markdown, \
with point, bolding and italics used appropriately to structure your reasoning."""

THINKING_OF_ASSISTANTS = (
    "You are a deep thinking AI assistant. Before providing your response, you should think through the problem "
    "carefully. Use <think></think> tags to enclose your internal reasoning and thought process, then provide your "
    "final response after the thinking tags."
)

ARENA_HARD_JUDGE = (
    "Please act as an impartial judge and evaluate the quality of the responses provided by two AI assistants to the "
    "user question displayed below. You should choose the assistant that follows the user's instructions and answers "
    "the user's question better. Your evaluation should consider factors such as the helpfulness, relevance, accuracy, "
    "depth, creativity, and level of detail of their responses. Begin your evaluation by providing a short "
    "explanation. Avoid any position biases and ensure that the order in which the responses were presented does not "
    "influence your decision. Do not allow the length of the responses to influence your evaluation. Do not favor "
    "certain names of the assistants. Be as objective as possible. After providing your explanation, output your final "
    'verdict by strictly following this format: "[[A>B]]" if assistant A is better, "[[B>A]]" if assistant B is '
    'better, and "[[A=B]]" for a tie.'
)

RUBRIC_JUDGE = """\
You will be given an instruction, a reference answer that gets a score of 5, a score rubric representing an evaluation \
criterion, and finally the response to evaluate,

1. Write a detailed feedback that assesses the quality of the response strictly based on the
   given score rubric, not evaluating in general.
2. After writing a feedback, write a score that is an integer between 1 and 5. You should
   refer to the score rubric.
3. The output format should look as follows: [FEEDBACK] (write a feedback for criteria)
   [SCORE] (an integer number between 1 and 5)
4. Please do not generate any other opening, closing, and explanations."""


@dataclass(frozen=True)
class Promised:
    """What is promised of an environment.

    Attributes:
        name: its name for `judgegym`.
        script: its file, from the root of the repository.
        defaults: each flag with its default, as `--show_config` prints it.
        flags: flags without a promised default.
        evaluated: metrics of `evaluate`, for rows with the categories of the bundled sample.
        trained: metrics of training.
    """

    name: str
    script: str
    defaults: Mapping[str, str]
    flags: frozenset[str]
    evaluated: frozenset[str]
    trained: frozenset[str] = frozenset()


ARENA_HARD = Promised(
    name="arena_hard",
    script="eval_environments/arena_hard_environment.py",
    defaults={
        "env.thinking_mode": "False",
        "env.custom_thinking_prompt": "None",
        "env.custom_system_prompt": "None",
        "env.judge_temperature": "0.2",
        "env.judge_max_tokens": "4096",
        "env.eval_temperature": "0.6",
        "env.rollout_temperature": "1.0",
        "env.eval_max_tokens": "40960",
        "env.train_max_tokens": "16384",
        "env.train_prompt_dataset": "NousResearch/arena-hard-v1-prompts",
        "env.train_baseline_dataset": "NousResearch/gpt-4-0314-baseline-arenahard",
        "env.eval_prompt_dataset": "None",
        "env.eval_baseline_dataset": "None",
        "env.train_split": "train",
        "env.eval_split": "train",
        "env.max_retries": "3",
        "env.retry_delay": "1.0",
        "env.min_response_length": "10",
        "env.judge_model_name": "claude-sonnet-4-20250514",
        "env.judge_api_key_env": "ANTHROPIC_API_KEY",
    },
    flags=frozenset(
        {
            *("openai.base_url", "openai.api_key", "openai.model_name"),
            *("env.data_dir_to_save_evals", "env.full_debug", "env.group_size", "env.use_wandb"),
        }
    ),
    evaluated=frozenset(
        {
            *("eval/overall_winrate", "eval/win_count", "eval/tie_count", "eval/loss_count", "eval/total_samples"),
            *("eval/win_rate", "eval/tie_rate", "eval/loss_rate"),
            *("eval/winrate_planning", "eval/winrate_explanation"),
        }
    ),
    trained=frozenset(
        {
            *("train/winrate", "train/win_rate", "train/tie_rate", "train/loss_rate", "train/total_judgments"),
            "config/thinking_mode",
        }
    ),
)

PAIRWISE_JUDGEMENT = Promised(
    name="pairwise_judgement",
    script="eval_environments/pairwise_judgement_environment.py",
    defaults={
        "env.thinking_mode": "True",
        "env.num_choices": "4",
        "env.eval_categories": "None",
        "env.max_ties_responses": "100",
        "env.eval_temperature": "0.6",
        "env.eval_max_tokens": "16384",
    },
    flags=frozenset(
        {
            *("openai.base_url", "openai.api_key", "openai.model_name"),
            *("env.data_dir_to_save_evals", "env.rollout_temperature", "env.use_wandb"),
        }
    ),
    evaluated=frozenset(
        {
            *("eval/percent_correct", "eval/choice_format_compliance_rate", "eval/ties_format_compliance_rate"),
            *("eval/ties_error_rate", "eval/wrong_answer_a_bias_rate", "eval/avg_ties_rating"),
            *(f"eval/ties_rating_freq_{rating}" for rating in range(1, 11)),
            *(
                f"eval/percent_correct_{category}"
                for category in ("factuality", "focus", "math", "precise_if", "safety", "ties")
            ),
        }
    ),
)

PROMISED = (ARENA_HARD, PAIRWISE_JUDGEMENT)

RETIRED = "claude-sonnet-4-20250514"
"""The judge that the specification names, "Claude Sonnet 4". Its provider retired it on 2026-06-15."""

DEVIATIONS: Mapping[str, str] = {
    "env.judge_model_name": "the provider has retired the promised model; the default is its named successor",
    "env.max_retries": "a call is retried until its deadline; 3 attempts lost rows to outages of seconds",
}
"""Flags whose default is another one, with the reason."""

COMMANDS: Mapping[str, str] = {
    "rewardbench": """\
python pairwise_judgement_environment.py evaluate \
    --openai.base_url https://api.openai.com/v1 \
    --openai.api_key sk-YOURAPIKEY \
    --openai.model_name gpt-4o \
    --env.data_dir_to_save_evals ./evals/rewardbench-gpt-4o""",
    "categories": """\
python pairwise_judgement_environment.py evaluate \
    --openai.model_name gpt-4o-mini \
    --env.eval_categories='["MATH", "SAFETY"]' \
    --env.data_dir_to_save_evals ./evals/math-safety-only""",
    "deterministic": """\
python pairwise_judgement_environment.py evaluate \
    --openai.model_name gpt-4o \
    --env.thinking_mode=False \
    --env.eval_temperature=0.0 \
    --env.max_ties_responses=50 \
    --env.data_dir_to_save_evals ./evals/deterministic-eval""",
    "judgements": """\
python pairwise_judgement_environment.py serve \
    --env.thinking_mode=True \
    --env.num_choices=4 \
    --env.rollout_temperature=0.8""",
    "thinking": """\
python arena_hard_environment.py serve \
    --env.thinking_mode=True \
    --env.rollout_temperature=1.0 \
    --env.group_size=8""",
    "without thinking": """\
python arena_hard_environment.py serve \
    --env.thinking_mode=False \
    --env.custom_system_prompt="You are a helpful assistant." \
    --env.eval_temperature=0.0""",
    "own data": """\
python arena_hard_environment.py serve \
    --env.train_prompt_dataset="/path/to/custom_prompts.jsonl" \
    --env.train_baseline_dataset="/path/to/custom_baselines.jsonl\"""",
    "performance": """\
python arena_hard_environment.py evaluate \
    --env.thinking_mode=True \
    --env.eval_temperature=0.0 \
    --env.judge_temperature=0.0""",
    "debug": """\
python arena_hard_environment.py evaluate \
    --env.full_debug=True \
    --env.eval_max_tokens=8192""",
}
"""The commands of the documents, as they stand there."""
