"""What a run recorded of its settings gives the same run again."""

from __future__ import annotations

from tests.conformance.lab import Lab, Undisturbed, slow_with_several_models


@slow_with_several_models
def test_recorded_settings_give_the_same_settings_and_samples(
    lab: Lab, undisturbed: Undisturbed
) -> None:
    lab.finished()
    recorded = lab.config()
    lab.command(
        "evaluate",
        f"--config={lab.files().path / 'config.yaml'}",
        f"--env.data_dir_to_save_evals={lab.path / 'again'}",
    ).successful()
    undisturbed.same_results(lab.files("again"))
    given = lab.config("again")
    assert given["env"].pop("data_dir_to_save_evals") == str(lab.path / "again")
    assert recorded["env"].pop("data_dir_to_save_evals") == str(lab.path / "run")
    assert given == recorded
