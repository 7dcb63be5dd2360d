"""`judge_output=json_schema`: the scores are those of text, in every environment, also where the judge refuses it."""

from __future__ import annotations

from typing import Any

from tests.conformance.lab import Disturbed, Lab, Undisturbed, slow_with_several_models
from tests.conformance.subjects import uids
from tests.scripted import Json, Reply, ScriptedEndpoint

OUTPUT = "--env.judge_output=json_schema"
REFUSED = Reply(status=400, body={"error": {"message": "response_format is not supported"}})


class TextOnly(Disturbed):
    """The stand-in as an endpoint without response formats."""

    async def __call__(self, request: Json, number: int) -> Reply:
        return REFUSED if "response_format" in request else await super().__call__(request, number)


def results(samples: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What a sample says apart from texts."""
    return [
        (sample["uid"], sample["score"], sample["headline"], sample["orders"]) for sample in samples
    ]


def formatted(endpoint: ScriptedEndpoint) -> int:
    """How many requests had a response format."""
    return sum("response_format" in body for body in endpoint.bodies)


def is_refused(lab: Lab) -> bool:
    """Whether the environment has a judge of its own which does not read the setting; the command then says so."""
    if "judge_output" not in lab.subject.env_type.config_type.unused_settings:
        return False
    ended = lab.evaluate(OUTPUT)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.startswith("--env.judge_output (command line): ")
    assert ended.err.endswith("nothing reads it\n")
    return True


def test_scores_are_those_of_text(lab: Lab, undisturbed: Undisturbed) -> None:
    """Of every judge that is asked; where the policy judges, the setting asks nobody."""
    if is_refused(lab):
        return
    files = lab.finished(OUTPUT)
    assert results(files.samples) == results(undisturbed.files.samples)
    assert formatted(lab.judge.endpoint) == (
        len(lab.judge.endpoint.bodies) if lab.subject.has_judge else 0
    )
    assert formatted(lab.policy.endpoint) == 0


@slow_with_several_models
def test_a_judge_that_refuses_it_gives_the_samples_of_text(
    lab: Lab, undisturbed: Undisturbed, stand_in_url: str
) -> None:
    """And a run that is resumed takes them from its ledger, without a request."""
    if not lab.subject.has_judge or is_refused(lab):
        return
    lab.judge.endpoint._script = TextOnly(stand_in_url)
    files = lab.finished(OUTPUT)
    assert files.without_run() == undisturbed.files.without_run()
    asked, refused = lab.judge.endpoint.bodies, formatted(lab.judge.endpoint)
    notices = [
        notice
        for notice in files.report["config_general"]["notices"]
        if "refuses response_format" in notice
    ]
    models = {body["model"] for body in asked}
    log = (files.path / "run.log").read_text(encoding="utf-8")
    assert len(notices) == 1 and 0 < refused < len(asked)
    assert log.count("refuses response_format") == len(models), "said once of each judge"
    files.interrupt(*uids())
    lab.judge.endpoint.requests.clear()
    lab.policy.endpoint.requests.clear()
    resumed = lab.finished(OUTPUT, "--resume")
    assert resumed.without_run() == undisturbed.files.without_run()
    assert lab.requests == 0
    assert len(resumed.report["config_general"]["notices"]) == len(
        files.report["config_general"]["notices"]
    )
