"""The process of one seed: its policy's endpoint and its trainer, until all steps are made.

    python -m examples.tiny_grpo.training.seed SETTINGS

SETTINGS is the JSON of `SeedSettings`. Standard output has a line for each event (`events.py`), and
nothing else: output of libraries goes to standard error. The process ends when its parent dies,
which closes standard input.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import redirect_stdout
from pathlib import Path

import torch

from examples.rollout_api import RolloutApi
from examples.tiny_grpo.policy.endpoint import serve_policy
from examples.tiny_grpo.policy.model import ModelSize, TinyTransformer
from examples.tiny_grpo.policy.served import ServedPolicy
from examples.tiny_grpo.policy.warm_up import warm_up
from examples.tiny_grpo.tasks import WarmUp
from examples.tiny_grpo.training.events import Event, FinishedEvent, ServedEvent, write_event
from examples.tiny_grpo.training.settings import SeedSettings
from examples.tiny_grpo.training.trainer import Trainer
from judgegym.offline.request import RequestMessage, make_prompt_ids


def main() -> int:
    """Train one seed."""
    settings = SeedSettings.read(sys.argv[1])
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    torch.set_num_threads(settings.threads)
    size = ModelSize(alphabet=settings.alphabet)
    model = TinyTransformer(size, seed=settings.seed)
    policy = ServedPolicy(size, seed=settings.seed)
    api, training = RolloutApi(settings.api), settings.training
    if settings.warm_up is not None:
        warm_up(model, _prompts(settings.warm_up), steps=settings.warm_up.steps, seed=settings.seed)
        policy.publish(model)
    trainer = Trainer(
        model, policy, training, letter=settings.letter, thinks=settings.warm_up is not None
    )
    with serve_policy(policy) as url:
        api.register(batch_size=training.batch_size, max_tokens=size.context, steps=training.steps)
        _say(ServedEvent(url))
        groups = 0
        with redirect_stdout(sys.stderr):  # Atropos' loss prints warnings
            for trained in trainer.train(api):
                _say(trained)
                groups += trained.groups
        _say(FinishedEvent(groups + api.queued()))
    return 0


def _prompts(settings: WarmUp) -> list[list[int]]:
    system = RequestMessage("system", settings.system)
    rows = Path(settings.rows).read_text(encoding="utf-8").splitlines()
    return [
        make_prompt_ids([system, RequestMessage("user", json.loads(row)["prompt"])]) for row in rows
    ]


def _say(event: Event) -> None:
    print(write_event(event), file=sys.__stdout__, flush=True)


def _end_with_parent() -> None:
    while os.read(0, 65_536):
        pass
    os._exit(1)  # the endpoint's threads would continue


if __name__ == "__main__":
    sys.exit(main())
