"""What a failed judgment adds to the loss of rLLM in a remote runtime, by its own engine and transform."""

from __future__ import annotations

from tests.trainers.loops import trainers


# Losses: rLLM | any | evaluator, remote runtime with `compact_filtering.mask_error` | safe
# Losses: rLLM | any | evaluator, remote runtime | score
async def test_a_failed_judgment_in_a_remote_runtime_is_trained_as_0_unless_errors_are_filtered() -> (
    None
):
    ended = await trainers.run("rllm", "loss_program.py")
    assert ended.code == 0, ended.err
    assert ended.result["default"] == [[1.0, 0.0, 0.5]]
    assert ended.result["filtered"] == [[1.0, 0.5]]
    assert ended.result["answers"] == [
        "Seven.",
        "",
        "7",
    ]  # no answer is not `None`, which rLLM's own function writes
