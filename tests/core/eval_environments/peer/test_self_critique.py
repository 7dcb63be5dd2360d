"""The specification's example of peer evaluation with self-critique, end to end through the command line."""

from __future__ import annotations

import pytest

from judgegym.judges.peers import DEFAULT_RUBRIC
from tests.peers import Asked, Bench, Evaluated, Minds, answer_of, asked, bench, scored

TNG, STEPFUN, ALLENAI = MODELS = (
    "TNG: DeepSeek R1T2 Chimera (free)",
    "StepFun: Step 3.5 Flash (free)",
    "AllenAI: Molmo2 8B (free)",
)
QUERY = "How many gigabytes of VRAM should I have for 1080p gaming?"
RUBRIC = "\n\n".join(
    (
        "Correctness & Accuracy (25 points) — Ensures claims are factually accurate and "
        "verifiable, addressing the "
        "most critical concern of hallucination-free responses. This is weighted highest because "
        "inaccurate "
        "information undermines all other qualities.",
        "Completeness (20 points) - Verifies the answer addresses all aspects of the query without "
        "significant "
        "omissions. This prevents shallow or partial responses that technically answer only part "
        "of the question.",
        "Clarity & Coherence (18 points) - Assesses whether the answer is well-organized with "
        "logical flow. Research "
        "shows that coherence and relevance are strong signals of problem-solving quality.",
        "Relevance (18 points) - Ensures all information pertains to the question, avoiding "
        "tangential content that "
        "confuses the issue. This maintains focus and efficiency.",
        "Conciseness (10 points) - Rewards efficiency by penalizing unnecessary verbosity or "
        "repetition while "
        "maintaining completeness. This balances against verbose but complete responses.",
        "Appropriateness for Context (9 points) — Checks whether tone, depth, and format match "
        "what the questioner "
        "likely needs. Technical questions require different treatment than conversational ones.",
    )
)
BEFORE = (
    "The response provides accurate, up-to-date VRAM recommendations for 1080p gaming (25/25 "
    "Correctness), thoroughly "
    "addresses all query aspects including edge cases like modding (20/20 Completeness), uses "
    "clear headers/logical "
    "flow (18/18 Clarity), maintains strict focus on VRAM needs (18/18 Relevance), delivers "
    "comprehensive information "
    "without fluff (10/10 Conciseness), and adopts a perfect technical-but-approachable tone (9/9 "
    "Appropriateness)."
)
AFTER = (
    "Minor deduction in Correctness (23/25) due to overstatement about 8GB universally handling "
    "Ultra settings in "
    "2023-2024 AAA games at 1080p, slightly affecting factual precision; other rubric categories "
    "remain flawless."
)
AHEAD = {
    (TNG, STEPFUN): 100,
    (TNG, ALLENAI): 60,
    (STEPFUN, TNG): 95,
    (STEPFUN, ALLENAI): 78,
    (ALLENAI, TNG): 93,
    (ALLENAI, STEPFUN): 96,
}
FINAL = AHEAD | {(TNG, STEPFUN): 98, (STEPFUN, ALLENAI): 73, (ALLENAI, TNG): 91}


def judged(it: Asked) -> str:
    pair = it.model, it.candidate
    return scored(AHEAD[pair], BEFORE if pair == (TNG, STEPFUN) else "So it seems.")


def critiqued(it: Asked) -> str:
    """One judge says nothing but its revision, as in the specification; the others critique first."""
    pair = it.model, it.candidate
    if pair == (TNG, STEPFUN):
        return scored(FINAL[pair], AFTER)
    return (
        f"I gave {it.score}, which may be too lenient.\n"
        f"{scored(FINAL[pair], 'On second thoughts.')}"
    )


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bench, Evaluated]:
    script = Minds(judgment=judged, critique=critiqued)
    with bench(tmp_path_factory.mktemp("example"), script, MODELS) as models:
        ended = models.evaluate(rows=[{"query": QUERY}])
    return models, ended


Ran = tuple[Bench, Evaluated]


@pytest.mark.slow
def test_it_succeeds_in_one_command(example: Ran) -> None:
    _, ended = example
    assert ended.code == 0, ended.said
    assert ended.files.failures == []
    assert [sample["uid"] for sample in ended.files.samples] == ["row-1"]


def test_each_model_answers_once_and_judges_and_critiques_each_other_once(example: Ran) -> None:
    models, _ = example
    assert models.counts() == {"answer": 3, "judgment": 6, "critique": 6}
    for name, endpoint in models.endpoints.items():
        about = [asked(body) for body in endpoint.bodies]
        assert {each.model for each in about} == {name}
        assert [each.kind for each in about].count("answer") == 1
        for kind in ("judgment", "critique"):
            assert sorted(each.candidate for each in about if each.kind == kind) == sorted(
                {*MODELS} - {name}
            )


def test_a_judge_is_shown_query_answer_and_rubric(example: Ran) -> None:
    models, _ = example
    judgments = [each for each in models.asked() if each.kind == "judgment"]
    assert {(each.query, each.rubric) for each in judgments} == {(QUERY, RUBRIC)}
    assert {each.response for each in judgments} == {answer_of(name, QUERY) for name in MODELS}


def test_a_critique_is_asked_in_the_words_of_the_specification(example: Ran) -> None:
    models, _ = example
    (body,) = (
        body
        for body in models.endpoints[TNG].bodies
        if (it := asked(body)).kind == "critique" and it.candidate == STEPFUN
    )
    it = asked(body)
    assert (it.query, it.response, it.rubric) == (QUERY, answer_of(STEPFUN, QUERY), RUBRIC)
    assert (it.reasoning, it.score) == (BEFORE, 100)
    (message,) = body["messages"]
    assert message["content"] == (
        "You previously evaluated a candidate's response and gave a score with a rationale. Now "
        "critique your "
        "evaluation and then provide a revised score and rationale.\n\n"
        f"QUERY:\n{QUERY}\n\n"
        f"CANDIDATE RESPONSE (that you evaluated):\n{answer_of(STEPFUN, QUERY)}\n\n"
        f"RUBRIC:\n{RUBRIC}\n\n"
        f"YOUR PREVIOUS EVALUATION:\n- Reasoning: {BEFORE}\n- Score: 100 (out of 100)\n\n"
        "Instructions:\n\n"
        "1. Critique: Briefly critique your previous rationale and score. Consider whether you "
        "were too harsh or "
        "lenient, missed rubric criteria, or misapplied weightings. Be specific (e.g., "
        '"I may have been too strict on Completeness").\n\n'
        "2. Revision: After your critique, output your revised evaluation as a single JSON object. "
        "You must end your "
        "response with exactly one line that is only this JSON object (no other text on that "
        "line):\n"
        '{"reasoning": "<one-sentence revised justification referencing rubric>", "score": '
        "<integer 0-100>}\n\n"
        "Apply the rubric strictly. Correctness & Accuracy has the highest impact on the overall "
        "score."
    )


def test_the_default_rubric_is_the_specifications() -> None:
    assert DEFAULT_RUBRIC == RUBRIC


def test_the_tables_of_both_rounds(example: Ran) -> None:
    _, ended = example
    assert ended.table(1) == [
        ["judge", *MODELS],
        [TNG, "", "98", "60"],
        [STEPFUN, "95", "", "73"],
        [ALLENAI, "91", "96", ""],
    ]
    assert ended.table(0) == [
        ["judge", *MODELS],
        [TNG, "", "100", "60"],
        [STEPFUN, "95", "", "78"],
        [ALLENAI, "93", "96", ""],
    ]
    assert not (ended.files.path / "scores_round_2.csv").exists()
    assert ended.shown(TNG) == [[TNG, "–", "100", "60"], [TNG, "–", "98", "60"]]


def test_the_specifications_entry_of_the_history(example: Ran) -> None:
    _, ended = example
    history = {(each["evaluating_model"], each["evaluated_model"]): each for each in ended.history}
    assert len(ended.history) == len(history) == 6
    assert history[TNG, STEPFUN] == {
        "round": 1,
        "uid": "row-1",
        "evaluating_model": TNG,
        "evaluated_model": STEPFUN,
        "before_score": 100,
        "before_reasoning": BEFORE,
        "raw_response": scored(98, AFTER),
        "critique": "",
        "after_score": 98,
        "after_reasoning": AFTER,
        "status": "revised",
        "error": None,
    }
    assert history[STEPFUN, ALLENAI]["critique"] == "I gave 78, which may be too lenient."
    assert {pair: each["before_score"] for pair, each in history.items()} == AHEAD
    assert {pair: each["after_score"] for pair, each in history.items()} == FINAL
    assert {pair: each["status"] for pair, each in history.items()} == {
        pair: "unchanged" if AHEAD[pair] == FINAL[pair] else "revised" for pair in AHEAD
    }


def test_the_history_for_people(example: Ran) -> None:
    _, ended = example
    lines = [
        f"Judge: {TNG}  →  Candidate: {STEPFUN}",
        "  Before:",
        "    Score: 100",
        f"    Reasoning: {BEFORE}",
        "  Raw response (critique + revision):",
        f"    {scored(98, AFTER)}",
        "  After (revised):",
        "    Score: 98",
        f"    Reasoning: {AFTER}",
    ]
    assert "\n".join("    " + line for line in lines) in ended.markdown
    assert f"| {TNG} | – | 98 | 60 |" in ended.markdown
    assert f"| {TNG} | – | 100 | 60 |" in ended.markdown


def test_the_metrics(example: Ran) -> None:
    _, ended = example
    found = ended.metrics
    slugs = (
        "tng_deepseek_r1t2_chimera_free~9efbabee stepfun_step_3.5_flash_free~0b51fd13 "
        "allenai_molmo2_8b_free~892a8b58"
    )
    names = slugs.split()
    assert found["mean_score"] == pytest.approx(sum(FINAL.values()) / 6)
    assert [found[f"mean_score_{name}"] for name in names] == [93.0, 97.0, 66.5]
    # (2·column + row) / 3 − total / 6 of TNG: 95 and 93 given, 100 and 60 by it, of 522; then 95,
    # 91, 98, 60 of 513.
    assert found[f"adjusted_score_{names[0]}_before_critique"] == pytest.approx(
        (2 * 188 + 160) / 3 - 522 / 6
    )
    assert found[f"adjusted_score_{names[0]}"] == pytest.approx((2 * 186 + 158) / 3 - 513 / 6)
    assert (found["critique_changed_rate"], found["critique_raised_rate"]) == (0.5, 0.0)
    assert found["critique_mean_change"] == pytest.approx((-2 - 5 - 2) / 6)
    assert found[f"critique_changed_rate_{names[0]}"] == 0.5
    assert (
        found["critique_failed_round_rate"],
        found["missing_cells"],
        found["missing_cell_rate"],
    ) == (0, 0, 0)
    assert {f"self_preference_{name}" for name in names} <= set(ended.left_out)


def test_what_is_shown_names_the_models_and_no_others(example: Ran) -> None:
    """No policy and no judge of the settings had a part in it."""
    _, ended = example
    general = ended.files.report["config_general"]
    names = ", ".join(MODELS)
    assert (general["model_name"], general["judge_model_name"]) == (names, names)
    assert f"self_critique: {names}, judged by {names}\n" in ended.ended.out
    for wrong in ("of the dataset", "gpt-4", "claude"):
        assert wrong not in ended.said
        assert wrong not in str(general)
