"""The server with the offline judge, as `gym env test --resources-server judgegym` runs it."""

import json
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from nemo_gym.server_utils import ServerClient

from judgegym_trainers.nemo_gym.resources_server import (
    JudgeGymResourcesServer,
    JudgeGymServerConfig,
)

ROWS = Path(__file__).parents[1] / "data" / "example.jsonl"


def _response(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "id": "r1",
        "output": [{"id": "m1", "type": "message", "role": "assistant", "content": content}],
    }


def test_every_example_row_is_verified_and_aggregated() -> None:
    """Each row has a reward of the offline judge, and comes back with its fields."""
    config = JudgeGymServerConfig(
        host="127.0.0.1",
        port=8400,
        entrypoint="app.py",
        name="judgegym",
        reward_server={"offline": True},
    )
    server = JudgeGymResourcesServer(config=config, server_client=ServerClient.model_construct())
    with TestClient(server.setup_webserver(), base_url="http://127.0.0.1:8400") as client:
        assert client.post("/seed_session", json={}).status_code == 200
        verified = []
        for line in ROWS.read_text().splitlines():
            row = json.loads(line)
            response = client.post("/verify", json={**row, "response": _response("An answer.")})
            assert response.status_code == 200
            assert 0 <= response.json()["reward"] <= 1
            assert response.json()["responses_create_params"] == row["responses_create_params"]
            verified.append(response.json())
        metrics = client.post("/aggregate_metrics", json={"verify_responses": verified}).json()
    assert metrics["agent_metrics"]["num_responses"] == len(verified)
