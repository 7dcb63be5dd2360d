"""Rows come from the datasets and the split of the hub that the settings name, and from no other."""

from __future__ import annotations

import datasets
import pytest

from judgegym.engine.settings.verbs import uses
from judgegym.eval_environments.mt_bench_environment import MTBenchEnv
from judgegym.eval_environments.self_critique_environment import SelfCritiqueEnv
from tests.conformance.lab import Lab, Undisturbed, slow_with_several_models
from tests.conformance.subjects import OF_THE_HUB, uids

SPLIT = "validation"


@slow_with_several_models
@pytest.mark.parametrize("subject", OF_THE_HUB, indirect=True, ids=lambda each: each.title)
def test_rows_of_the_hub_give_the_samples_of_the_same_rows_in_files(
    lab: Lab, undisturbed: Undisturbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = lab.subject
    made = {f"some-lab/{name}": convert for name, convert in subject.datasets.items()}

    def load_dataset(name: str, *, split: str) -> datasets.Dataset:
        assert split == SPLIT, f"{name} was asked for its split {split!r}"
        return datasets.Dataset.from_list([made[name](subject.row(uid)) for uid in uids()])

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    setting = "split" if subject.env_type in (SelfCritiqueEnv, MTBenchEnv) else "eval_split"
    used = [
        name for name in subject.datasets if uses("evaluate", subject.env_type.config_type, name)
    ]
    names = [f"--env.{name}=some-lab/{name}" for name in used]
    files = lab.finished(*names, f"--env.{setting}={SPLIT}")
    assert files.without_run() == undisturbed.files.without_run()
