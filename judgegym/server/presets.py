"""`--for TRAINER`: deadlines below the time limit of a trainer's own client, and failures in a form that it reads.

A preset is a default: what the command line, the environment or the YAML file set comes before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from judgegym.judges.config.reading import SettingsSource
from judgegym.server.answers import OnFailure

Trainer = Literal["nemo_gym", "openrlhf", "slime", "verl", "trl", "verifiers"]
FLAG = "for"


@dataclass(frozen=True, slots=True)
class Preset:
    """What a trainer's client needs.

    Attributes:
        deadline: seconds within which each request is answered in all, unless it brings its own deadline.
        judge_deadline: seconds for a call to the judge with its retries; less, so that the reason arrives.
        judge_timeout: seconds for one attempt of a call; less, so that one that hangs is repeated.
        on_failure: how the trainer is told of a failed judge.
        max_body_mb: the largest body; rollouts of NeMo Gym hold token ids and logprobs.
    """

    deadline: float
    judge_deadline: float
    judge_timeout: float
    on_failure: OnFailure = "sidecar"
    max_body_mb: float = 8.0

    def values(self) -> dict[str, object]:
        """The settings; on SIGTERM all requests in flight may end, and no call waits for longer than its caller."""
        return {
            "deadline": self.deadline,
            "queue_deadline": self.deadline,
            "request_deadline": self.deadline,
            "judge_deadline": self.judge_deadline,
            "judge_timeout": self.judge_timeout,
            "endpoint_away_deadline": self.judge_deadline,
            "drain_timeout": self.deadline + 10.0,
            "on_failure": self.on_failure,
            "max_body_mb": self.max_body_mb,
        }


PRESETS: Mapping[Trainer, Preset] = {
    # its client has no limit
    "nemo_gym": Preset(deadline=900.0, judge_deadline=840.0, judge_timeout=300.0, max_body_mb=64.0),
    "openrlhf": Preset(deadline=150.0, judge_deadline=140.0, judge_timeout=90.0),  # 180 s, 5 tries
    "slime": Preset(deadline=100.0, judge_deadline=90.0, judge_timeout=60.0),  # 120 s, 10 tries
    "verl": Preset(deadline=140.0, judge_deadline=130.0, judge_timeout=90.0),  # 150 s of `compute_score`
    "trl": Preset(deadline=140.0, judge_deadline=130.0, judge_timeout=90.0),  # 150 s of `judge_reward`
    # 60 s
    "verifiers": Preset(deadline=50.0, judge_deadline=45.0, judge_timeout=30.0, on_failure="http", max_body_mb=64.0),
}


def with_preset(sources: list[SettingsSource]) -> list[SettingsSource]:
    """The sources, and after them the preset that the first of them names; a name that is not known is left to them."""
    named = next((source.values[FLAG] for source in sources if FLAG in source.values), None)
    trainer = next((trainer for trainer in get_args(Trainer) if trainer == named), None)
    if trainer is None:
        return sources
    return [*sources, SettingsSource(f"--{FLAG} {trainer}", PRESETS[trainer].values())]
