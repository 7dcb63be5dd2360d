"""Recorded verdicts of four judges under five prompts: the audits' counts are those that LLMBar's authors publish."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judgegym_trials.audit.audit import Audit, audit
from judgegym_trials.audit.reading import read_judgments
from judgegym_trials.audit.settings import load_settings
from tests.command import ROOT
from tests.trials.audit.made import audited

DATA = ROOT.parent / "shared" / "data" / "llmbar"
needs_llmbar = pytest.mark.skipif(
    not DATA.is_dir(), reason="the real data is not there: ../shared/data/llmbar"
)
SUBSETS = (
    "Natural",
    "Adversarial/Neighbor",
    "Adversarial/GPTInst",
    "Adversarial/GPTOut",
    "Adversarial/Manual",
)
PUBLISHED = {
    ("GPT-4", "Vanilla"): "95/96/93 104/107/101 78/81/77 35/38/35 35/39/33",
    ("GPT-4", "CoT"): "94/95/90 101/100/94 75/78/72 37/33/32 33/35/30",
    ("GPT-4", "Metrics"): "92/94/90 109/114/107 81/84/78 34/35/32 38/37/33",
    ("GPT-4", "Reference"): "95/96/94 110/106/101 79/82/76 35/38/33 38/40/36",
    ("GPT-4", "Metrics_Reference"): "95/97/94 115/114/111 80/85/78 34/34/30 37/40/35",
    ("ChatGPT", "Vanilla"): "80/83/67 30/22/7 25/24/7 17/22/10 18/14/5",
    ("ChatGPT", "CoT"): "70/78/56 31/30/6 28/26/8 21/21/7 18/15/5",
    ("ChatGPT", "Metrics"): "82/81/68 36/40/11 35/31/9 18/21/11 20/20/12",
    ("ChatGPT", "Reference"): "81/82/66 37/38/13 31/28/8 16/19/8 17/10/3",
    ("ChatGPT", "Metrics_Reference"): "82/83/69 54/48/23 30/36/7 18/18/7 19/21/7",
    ("LLaMA2", "Vanilla"): "79/82/70 34/32/18 28/28/16 27/26/20 17/17/9",
    ("LLaMA2", "CoT"): "72/79/59 56/43/28 33/33/12 21/21/6 18/18/6",
    ("LLaMA2", "Metrics"): "79/80/68 37/42/24 31/33/14 26/22/18 19/16/11",
    ("LLaMA2", "Reference"): "78/75/58 43/50/26 31/29/14 29/24/15 18/21/11",
    ("LLaMA2", "Metrics_Reference"): "74/78/59 47/49/26 34/30/17 30/26/18 18/22/12",
    ("PaLM2", "Vanilla"): "78/88/73 82/86/62 66/69/53 27/29/20 32/28/27",
    ("PaLM2", "CoT"): "69/77/55 73/65/35 47/54/17 23/32/13 21/30/13",
    ("PaLM2", "Metrics"): "79/83/69 87/93/70 68/71/54 25/27/17 32/29/27",
    ("PaLM2", "Reference"): "84/87/77 88/89/70 70/67/54 31/30/24 30/25/20",
    ("PaLM2", "Metrics_Reference"): "86/87/79 91/96/75 74/68/58 30/30/23 31/31/27",
}
"""Right verdicts in the given order, in the swapped order and in both, by subset: `correct_False`, `correct_True` and
`correct_both` of the files `statistics.json` of princeton-nlp/LLMBar at 900616b (MIT)."""


def audit_of(judge: str, prompt: str) -> Audit:
    judgments = read_judgments(
        str(DATA / "rows.jsonl"),
        columns={},
        verdicts=DATA / "verdicts.jsonl",
        judge=judge,
        prompt=prompt,
    )
    return audit(judgments, load_settings())


@needs_llmbar
@pytest.mark.slow
@pytest.mark.parametrize(("judge", "prompt"), PUBLISHED)
def test_accuracies_by_order_are_the_published_counts(judge: str, prompt: str) -> None:
    found = audit_of(judge, prompt)
    by_name = {each["name"]: each for each in found.categories}
    counts = [
        "/".join(
            f"{by_name[name][order]:g}" for order in ("right_given", "right_swapped", "right_both")
        )
        for name in SUBSETS
    ]
    assert " ".join(counts) == PUBLISHED[judge, prompt]
    checks = {check.name: check for check in found.checks}
    parts = [[int(each) for each in part.split("/")] for part in PUBLISHED[judge, prompt].split()]
    for number, name in enumerate(("accuracy_given", "accuracy_swapped", "accuracy_both")):
        assert checks[name].value == pytest.approx(sum(part[number] for part in parts) / 419)


@pytest.mark.slow
@needs_llmbar
def test_the_command_says_of_the_weakest_judge_what_it_is(tmp_path: Path) -> None:
    link = tmp_path / "rows.jsonl"
    link.symlink_to(DATA / "rows.jsonl")
    flags = (
        f"--verdicts={DATA / 'verdicts.jsonl'}",
        "--judge=ChatGPT",
        "--prompt=CoT",
        "--paraphrases=Vanilla",
    )
    found = audited(link, *flags, code=4)
    assert found["judge"] == "ChatGPT" and found["rows"] == 419
    words = {name: check["word"] for name, check in found["by_name"].items()}
    assert words["accuracy"] == words["first_place_advantage"] == words["length_bias"] == "fails"
    rows = {row["uid"]: row for row in map(json.loads, (DATA / "rows.jsonl").open())}
    lines = {
        (line["judge"], line["prompt"]): line["winner"]
        for line in map(json.loads, (DATA / "verdicts.jsonl").open())
    }
    winner, other = lines["ChatGPT", "CoT"], lines["ChatGPT", "Vanilla"]
    right = sum(each == rows[uid]["label"] for uid, both in winner.items() for each in both)
    assert found["by_name"]["accuracy"]["value"] == pytest.approx(right / 838)
    read = [
        (a, b) for uid in winner for a, b in zip(winner[uid], other[uid], strict=True) if a and b
    ]
    same = sum(a == b for a, b in read) / len(read)
    assert found["by_name"]["paraphrase_agreement"]["value"] == pytest.approx(same)
