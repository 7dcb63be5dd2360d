"""The files for the operation of the reward server: their commands start it, and the metrics that they name exist."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from examples.processes import ROOT
from judgegym.judges.config.sources import load
from judgegym.server.settings import RewardServerSettings, add_preset
from tests.core.server.running import asked, running
from tests.scripted import Json, Reply, completion

DEPLOY = ROOT / "deploy"
CAUSES = {"failed", "unparsable", "refused", "cut_off", "empty", "budget"}


def settings_of(words: list[str]) -> RewardServerSettings:
    """The settings of a command line that ends with `judge-server` and its flags."""
    flags = words[words.index("judge-server") + 1 :]
    extra = ["--judge=rubric", '--tokens={"trainer": "secret"}', "--offline"]
    return load(RewardServerSettings, [*flags, *extra], prog="test", reshape=add_preset).settings


def instruction(name: str) -> list[str]:
    (found,) = re.findall(rf"^{name} (.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    words: list[str] = json.loads(found.partition("CMD ")[2] if name == "HEALTHCHECK" else found)
    return words


def documents() -> dict[str, Any]:
    text = (DEPLOY / "kubernetes" / "judgegym.yaml").read_text()
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def test_the_image_and_compose_start_a_server_that_others_reach() -> None:
    server = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["server"]
    entry = instruction("ENTRYPOINT")
    for words in (entry + instruction("CMD"), entry + server["command"]):
        settings = settings_of(words)
        assert (settings.host, settings.port) == ("0.0.0.0", 8400)
        settings.check_access()
    assert int(server["stop_grace_period"].removesuffix("s")) >= settings.drain_s


def test_the_image_is_built_in_stages_and_runs_without_rights() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert len(re.findall(r"^FROM ", text, re.MULTILINE)) == 2
    assert int(re.findall(r"^USER (\d+)$", text, re.MULTILINE)[-1]) > 0
    ast.parse(instruction("HEALTHCHECK")[2])


async def test_kubernetes_probes_what_there_is_and_waits_for_requests_in_flight(
    tmp_path: Path,
) -> None:
    pod = documents()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    config = tmp_path / "server.yaml"
    config.write_text("judge: rubric\n")
    words = " ".join(["judge-server", *container["args"]]).replace(
        "/etc/judgegym/server.yaml", str(config)
    )
    pause = int(re.findall(r"sleep\((\d+)\)", json.dumps(container["lifecycle"]))[0])
    assert pod["terminationGracePeriodSeconds"] >= settings_of(words.split()).drain_s + pause
    (port,) = container["ports"]
    assert port["containerPort"] == 8400
    assert (
        documents()["Service"]["spec"]["selector"]
        == documents()["Deployment"]["spec"]["selector"]["matchLabels"]
    )
    paths = {
        name: container[f"{name}Probe"]["httpGet"]["path"]
        for name in ("startup", "liveness", "readiness")
    }
    async with running() as server:
        assert {(await server.get(path)).status for path in paths.values()} == {200}
        server.service.drain()
        states = {name: (await server.get(path)).status for name, path in paths.items()}
    assert states == {"startup": 200, "liveness": 200, "readiness": 503}


async def exposition() -> str:
    """The metrics of a server that has met each kind of result, and groups."""

    def judge(request: Json, number: int) -> Reply | str:
        answers: dict[str, Reply | str] = {
            "busy": Reply(status=429, headers={"Retry-After": "0"}),
            "down": Reply(status=400),
            "refuses": Reply(body=completion("I will not.", finish_reason="content_filter")),
            "cut": Reply(body=completion("[FEEDBACK] it", finish_reason="length")),
            "mumbles": "I cannot say.",
        }
        for name, answer in answers.items():
            if f"Evaluate\n\n{name}" in asked(request) and not (name == "busy" and number % 2):
                return answer
        return "[FEEDBACK] fine [SCORE] 5"

    responses = ["fine", "", "busy", "down", "refuses", "cut", "mumbles"]
    flags = '--mounts={"group": {"judge": "listwise", "group_size": 2}}', "--group_wait=0.01"
    prices = "--judge_price_input=1", "--judge_price_output=1"
    async with running(*prices, flags[0], judge=judge) as server:
        for response in responses:
            await server.post("/v1/score", {"prompt": "Q", "response": response})
        await server.post("/group/v1/score", {"prompt": "Q", "response": "", "member": "1"})
        return (await server.get("/metrics")).text


async def test_metrics_are_parsed_and_tell_causes_tokens_queue_and_rate_limits() -> None:
    families = {each.name: each for each in text_string_to_metric_families(await exposition())}
    own = {name: each for name, each in families.items() if name.startswith("judgegym_")}
    unscored = own["judgegym_unscored_responses"].samples
    seen = {
        each.labels["cause"] for each in unscored if each.name.endswith("_total") and each.value
    }
    assert {"failed", "unparsable", "refused", "cut_off", "empty"} <= seen <= CAUSES
    failures = {each.labels["cause"] for each in own["judgegym_attempt_failures"].samples}
    assert {"429", "rejected"} <= failures <= {"429", "busy", "away", "broken", "rejected"}
    counted = {
        each.name: each.value
        for each in own["judgegym_queue_seconds"].samples
        if each.labels["judge"] == ""
    }
    assert counted["judgegym_queue_seconds_count"] >= 6
    (tokens,) = [
        each.value
        for each in own["judgegym_completion_tokens"].samples
        if each.name.endswith("_total") and each.value
    ]
    assert tokens >= 5
    labels = {name for each in own.values() for sample in each.samples for name in sample.labels}
    assert labels <= {
        "judge",
        "protocol",
        "code",
        "status",
        "cause",
        "how",
        "monitor",
        "outcome",
        "le",
    }


def declared(text: str) -> set[str]:
    """The names of all samples that there can be; of a metric without labels' values yet, by its type."""
    found = set[str]()
    for each in text_string_to_metric_families(text):
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(
            each.type, ("",)
        )
        found |= {each.name + ending for ending in endings}
    return found


async def test_rules_and_panels_are_about_metrics_and_labels_that_exist() -> None:
    text = await exposition()
    there = declared(text)
    rules = [
        rule
        for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
        for rule in group["rules"]
    ]
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["annotations"]["summary"] and re.fullmatch(r"\d+[smh]", rule.get("for", "5m"))
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) >= 15
    assert all(
        panel["title"] and panel["targets"] and panel["datasource"]["uid"] == "${datasource}"
        for panel in panels
    )
    assert {each["name"] for each in dashboard["templating"]["list"]} == {"datasource", "judge"}
    queries = [target["expr"] for panel in panels for target in panel["targets"]] + [
        rule["expr"] for rule in rules
    ]
    named = {name for query in queries for name in re.findall(r"judgegym_\w+", query)}
    assert named - there == set()
    for query in queries:
        assert query.count("(") == query.count(")") and query.count("{") == query.count("}"), query
        for name, cause in re.findall(r"(judgegym_\w+)\{cause=\"([^\"]+)\"", query):
            assert f'{name}{{cause="{cause}"' in text, query


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_steps_of_the_dockerfile_run_in_a_clean_root() -> None:
    ended = subprocess.run(
        [sys.executable, "deploy/check_dockerfile.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode == 2:
        pytest.skip(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "is at hand: building" in ended.stdout or "healthy, as user" in ended.stdout
