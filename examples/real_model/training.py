"""Run `serve` with the real model and the real rollout API, and check the batches.

The trainer learns nothing: it checks what a trainer needs. Prompt ids are compared with the
endpoint's template and tokenizer, the text with the endpoint's detokenizer, and logprobs are
recomputed, token by token after the tokens before it.

Source: atroposlib 0.4.0, `api/server.py` (`/register`, `/batch`).
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from examples.processes import free_port
from examples.real_model import table
from examples.real_model.commands import JUDGEGYM, run_command
from examples.real_model.configs import TRAINING
from examples.real_model.http import Endpoint
from examples.real_model.server import RunningServer
from examples.rollout_api import RolloutApi, RolloutApiTimeout
from judgegym.llm.wire import JSON

STEPS, BATCH = 1, 8
"""The number of batches that the trainer takes, and of sequences in each."""

_MASKED = -100
_PATIENCE_S = 240.0
_LONGEST = 4096  # tokens
_CHECKED = 16
"""The number of tokens whose logprob is recomputed."""
_NEAR = 0.2
"""The largest difference of a recomputed logprob: batched and alone they differ by 0.15."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """One sequence of a batch."""

    tokens: Sequence[int]
    mask: Sequence[int]
    score: float
    logprobs: Sequence[float] | None
    messages: Sequence[Mapping[str, JSON]]

    @property
    def prompt(self) -> list[int]:
        """The token ids of the prompt."""
        return [
            token for token, mask in zip(self.tokens, self.mask, strict=True) if mask == _MASKED
        ]

    @property
    def completion(self) -> list[int]:
        """The sampled token ids."""
        return list(self.tokens[len(self.prompt) :])


@dataclass(frozen=True, slots=True)
class TrainingCheck:
    """The trainer's checks of its batches.

    Attributes:
        source: what `serve` logs about the source of the tokens.
        rollouts: all rollouts.
        prompts: the number of prompts with the ids of the endpoint's template and tokenizer.
        texts: the number of completions that equal the text of their ids.
        recomputed: the number of recomputed logprobs.
        near: the number of those that agree.
        seconds: the time from the start to the last batch.
    """

    source: str
    rollouts: Sequence[Rollout]
    prompts: int
    texts: int
    recomputed: int
    near: int
    seconds: float

    def table(self) -> str:
        """Return the checks as Markdown."""
        count = len(self.rollouts)
        tokens = sum(len(rollout.completion) for rollout in self.rollouts)
        with_logprobs = sum(rollout.logprobs is not None for rollout in self.rollouts)
        scores = [rollout.score for rollout in self.rollouts]
        return table.facts(
            [
                ("tokens and logprobs", self.source),
                (
                    "batches",
                    f"{STEPS}, of {BATCH} sequences, in {self.seconds:.0f} s; {tokens} sampled "
                    f"tokens, rewards from {min(scores):.2f} to {max(scores):.2f}",
                ),
                (
                    "prompt ids are those of the endpoint's template and tokenizer",
                    f"{self.prompts} of {count}",
                ),
                (
                    "completion ids, made text by the endpoint, are the text that was judged",
                    f"{self.texts} of {count}",
                ),
                ("sequences with `inference_logprobs`", f"{with_logprobs} of {count}"),
                (
                    f"logprobs that the endpoint computes again within {_NEAR}",
                    f"{self.near} of {self.recomputed} tokens",
                ),
            ]
        )


def train(server: RunningServer, folder: Path) -> TrainingCheck | str:
    """Serve rollouts until the trainer has its batches; return its checks, or an error."""
    port = free_port()
    api = RolloutApi(f"http://127.0.0.1:{port}")
    log = folder / f"{TRAINING.name}.log"
    config = folder / f"{TRAINING.name}.yaml"
    config.write_text(TRAINING.text(server.settings), encoding="utf-8")
    words = [*TRAINING.words(config), f"--env.rollout_server_url={api.url}"]
    words.append(f"--env.data_dir_to_save_evals={folder / TRAINING.name}")
    run_api = [sys.executable, "-m", "atroposlib.cli.run_api", "--host=127.0.0.1", f"--port={port}"]
    print(" ".join(["judgegym", *words]), flush=True)
    began = time.monotonic()
    try:
        with run_command(run_api, folder / "run_api.log") as api_process:
            api.register(
                batch_size=BATCH,
                max_tokens=_LONGEST,
                steps=STEPS,
                unless=lambda: _has_ended(api_process),
            )
            with run_command([*JUDGEGYM, *words], log) as serving:
                batches = [
                    api.next_batch(_PATIENCE_S, unless=lambda: _has_ended(serving))
                    for _ in range(STEPS)
                ]
    except RolloutApiTimeout as error:
        return f"{error}; the logs are {folder / 'run_api.log'} and {log}"
    groups = chain.from_iterable(batches)
    rollouts = [*chain.from_iterable(map(_rollouts, groups))]
    return _check_rollouts(
        rollouts, server.endpoint, _read_token_source(log), time.monotonic() - began
    )


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def _rollouts(group: Mapping[str, JSON]) -> Iterator[Rollout]:
    """Yield the sequences of a group of the API."""
    columns = [
        group.get(name) for name in ("tokens", "masks", "scores", "inference_logprobs", "messages")
    ]
    count = len(columns[0]) if isinstance(columns[0], list) else 0
    rows = [column if isinstance(column, list) else [None] * count for column in columns]
    for tokens, mask, score, logprobs, messages in zip(*rows, strict=True):
        yield Rollout(tokens, mask, score, logprobs, messages)


def _read_token_source(log: Path) -> str:
    """Return what `serve` has logged about the source of the tokens."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    source = re.compile("tokens come from|tokens and logprobs are")
    source_line = next(filter(source.search, lines), "")
    return (
        source_line.partition("INFO ")[2]
        or source_line.partition("WARNING ")[2]
        or source_line
        or "not said"
    )


def _check_rollouts(
    rollouts: Sequence[Rollout], endpoint: Endpoint, source: str, seconds: float
) -> TrainingCheck:
    places = list[tuple[Rollout, int]]()
    for rollout in rollouts:
        if rollout.logprobs is not None:
            positions = range(len(rollout.prompt), len(rollout.tokens))
            places += [(rollout, position) for position in positions]
    checked_positions = places[:: max(1, len(places) // _CHECKED)][:_CHECKED]
    near = sum(_is_near(endpoint, rollout, position) for rollout, position in checked_positions)
    return TrainingCheck(
        source,
        rollouts,
        prompts=sum(
            _tokenize_prompt(endpoint, sequence) == sequence.prompt for sequence in rollouts
        ),
        texts=sum(
            _detokenize(endpoint, sequence.completion) == str(sequence.messages[-1]["content"])
            for sequence in rollouts
        ),
        recomputed=len(checked_positions),
        near=near,
        seconds=seconds,
    )


def _tokenize_prompt(endpoint: Endpoint, rollout: Rollout) -> list[JSON]:
    turns: JSON = [
        {"role": turn["role"], "content": turn["content"]} for turn in rollout.messages[:-1]
    ]
    text = endpoint.post("/apply-template", {"messages": turns}).text("prompt")
    return endpoint.post(
        "/tokenize", {"content": text, "add_special": True, "parse_special": True}
    ).items("tokens")


def _detokenize(endpoint: Endpoint, ids: Sequence[int]) -> str:
    return endpoint.post("/detokenize", {"tokens": ids}).text("content")


def _is_near(endpoint: Endpoint, rollout: Rollout, position: int) -> bool:
    """Return whether the endpoint recomputes a token's logprob, after the tokens before it."""
    assert rollout.logprobs is not None
    token = rollout.tokens[position]
    body: dict[str, JSON] = {
        "prompt": list(rollout.tokens[:position]),
        "n_predict": 1,
        "n_probs": 1,
        "logit_bias": [[token, 1000.0]],  # forces the token; its logprob is still the model's
    }
    response = endpoint.post("/completion", body)
    same = response.at("completion_probabilities.0.id") == token
    return (
        same
        and abs(response.number("completion_probabilities.0.logprob") - rollout.logprobs[position])
        <= _NEAR
    )
