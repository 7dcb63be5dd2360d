"""A whole evaluation and a scored data set in each form: what they make is what OpenAI's form makes, faults or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.util import find_spec

import pytest

from tests.command import RunFiles, in_process
from tests.conformance.subjects import KEYS, Subject
from tests.faults.bench import Bench, Endpoint, Loop, Outcome, stand_in
from tests.faults.conftest import LEAN
from tests.messages import MessagesEndpoint

of_litellm = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("litellm") is None, reason="litellm is not installed (the extra litellm)"
    ),
]
FORMS = [
    "anthropic",
    pytest.param("litellm:openai", marks=of_litellm),
    pytest.param("litellm:anthropic", marks=of_litellm),
]
FAULTS = {"500": 0.05, "429": 0.05, "503": 0.05, "reset": 0.025, "malformed": 0.025}


@pytest.fixture
def subject() -> Subject:
    """One judgment of each completion: several have seeds, which the Messages API does not take."""
    return replace(LEAN, flags=())


@contextmanager
def form_of(loop: Loop, form: str, url: str) -> Iterator[str]:
    """The URL of an endpoint, behind the Messages API if the form speaks that."""
    with ExitStack() as stack:
        if "anthropic" in form:
            url = stack.enter_context(loop.entered(MessagesEndpoint(url))).base_url
        yield url.removesuffix("/v1") if form == "litellm:anthropic" else url


def flags(form: str, model: str, prefix: str) -> list[str]:
    api, _, route = form.partition(":")
    return [f"--{prefix}api={api}", *([f"--{prefix}model_name={route}/{model}"] if route else [])]


def evaluated(bench: Bench, form: str, faults: Mapping[str, float]) -> tuple[int, list[bytes], str]:
    with ExitStack() as stack:
        asked, judging = (
            stack.enter_context(stand_in(bench.loop, faults=faults)) for _ in range(2)
        )
        urls = [
            stack.enter_context(form_of(bench.loop, form, each.base_url))
            for each in (asked, judging)
        ]
        argv = bench.argv("evaluate", "run", *(Endpoint(url, judging.server) for url in urls))
        names = ("openai.model_name", "env.judge_model_name")
        models = {
            name: next(word.partition("=")[2] for word in argv if word.startswith(f"--{name}="))
            for name in names
        }
        if ":" in form:
            argv = [
                word for word in argv if not word.startswith(tuple(f"--{name}=" for name in names))
            ]
        given = flags(form, models[names[0]], "openai.") + flags(
            form, models[names[1]], "env.judge_"
        )
        ended = in_process(*argv, *given, env_type=bench.subject.env_type, env=KEYS)
        if faults:
            assert sum((asked.faults + judging.faults).values()) > 0
    assert "Traceback" not in ended.said
    return ended.code, RunFiles(bench.path / "run").without_run(), ended.said


@pytest.mark.parametrize("faults", [{}, FAULTS], ids=["calm", "faults"])
@pytest.mark.parametrize("verb", ["evaluate"])
@pytest.mark.parametrize("form", FORMS)
def test_evaluation_is_that_of_openais_form(
    bench: Bench, verb: str, form: str, faults: dict[str, float], undisturbed: Outcome
) -> None:
    code, samples, said = evaluated(bench, form, faults)
    assert code == 0, said
    assert samples == undisturbed.result
    served = RunFiles(bench.path / "run").report["config_general"]["served_models"]
    assert sum(served["judge"].values()) >= bench.rows
