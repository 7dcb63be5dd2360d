"""`metrics.json` can be cited alone, and a run's directory is named after what was evaluated and who judged."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta, timezone
from importlib.metadata import version
from pathlib import Path

import pytest

from examples.own_environment.constitution_environment import ConstitutionEnv
from tests.command import in_process
from tests.conformance.lab import Lab
from tests.conformance.subjects import Subject, uids


def test_metrics_file_says_when_with_what_on_which_data_and_by_which_protocol(lab: Lab) -> None:
    path = lab.finished().path
    general = lab.files().report["config_general"]
    date = datetime.fromisoformat(general["date"])
    assert date.utcoffset() == timedelta(0)
    assert timedelta(0) <= datetime.now(timezone.utc) - date < timedelta(minutes=10)
    assert general["judgegym_version"] == version("judgegym")
    assert general["environment"] == lab.subject.env_type.spec.name
    assert general["model_name"] and general["judge_model_name"]
    assert all(digest.startswith("sha256:") for digest in general["judge_prompt_digests"].values())
    files = {flag.partition("=")[2] for flag in lab.data_flags}
    for dataset in general["datasets"]:
        assert dataset["name"] in files
        assert (
            dataset["digest"]
            == f"sha256:{hashlib.sha256(Path(dataset['name']).read_bytes()).hexdigest()}"
        )
        assert (dataset["split"], dataset["rows"]) == (None, len(uids()))
    assert general["datasets"]
    assert general["rows"]["selected"] >= len(uids())
    assert 0 < float(general["total_evaluation_time_seconds"]) < 600, (
        "how long it took, and no time of day"
    )
    for flag in lab.subject.flags:
        name, _, value = flag.removeprefix("--").partition("=")
        if name in general["protocol"]:
            given = general["protocol"][name]
            assert value.lower() in str(given).lower() or isinstance(given, list)
    assert any(name.startswith("env.") for name in general["protocol"])
    assert lab.subject.env_type.config_type is ConstitutionEnv.config_type or "dataset" not in str(
        [*general["protocol"]]
    )
    assert not any(Path(path / "metrics.json").read_text().count(key) for key in ("api_key",))


def test_run_directory_names_policy_and_judge(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    in_process(
        "evaluate", "--offline", "--limit=1", *subject.role, env_type=subject.env_type
    ).successful()
    (run,) = (tmp_path / "runs").iterdir()
    name, *models, _ = run.name.split("--")
    assert name == subject.env_type.spec.name
    is_peer = name == "self_critique"  # there the candidates judge each other
    assert models == (
        ["offline-policy", "offline-judge"]
        if subject.has_judge and not is_peer
        else ["offline-policy"]
    )
