"""Bodies that several tests send, and a judge that reads the response."""

from __future__ import annotations

from tests.core.server.running import asked
from tests.scripted import Json, Reply

DOWN = Reply(status=500, body={"error": {"message": "out of order"}})
VERIFY: Json = {
    "responses_create_params": {"input": [{"role": "user", "content": "What is 2 + 2?"}]},
    "response": {
        "id": "r1",
        "created_at": 1,
        "model": "m",
        "object": "response",
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "output": [
            {
                "id": "m1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "4", "annotations": []}],
            }
        ],
    },
    "reference_answer": "Four.",
    "difficulty": 3,
}


def by_response(request: Json, number: int) -> str | Reply:
    """5 for the right answer, 1 for any other, nothing usable where it is asked to fail."""
    shown = asked(request).partition("### Response To Evaluate\n\n")[2]
    if shown.startswith("FAIL"):
        return "I cannot say."
    return f"[FEEDBACK] Seen. [SCORE] {5 if shown.startswith('4') else 1}"


def logs(*judge_failed: float) -> Json:
    """What is logged beside the rewards of completions that are not empty."""
    return {"judge_failed": list(judge_failed), "invalid_completion": [0.0] * len(judge_failed)}
