"""What a rubric's judge is shown, byte for byte."""

from typing import Any

from judgegym.judges.core.judgment import Scale
from judgegym.judges.rubrics.prompt import SCORE_PARSERS, Rubric, rubric_instructions
from judgegym.llm.wire import Message
from tests.rubrics import rubric_prompt

SYSTEM = """\
You will be given an instruction, a reference answer that gets a score of 5, a score rubric representing an evaluation \
criterion, and finally the response to evaluate,

1. Write a detailed feedback that assesses the quality of the response strictly based on the
   given score rubric, not evaluating in general.
2. After writing a feedback, write a score that is an integer between 1 and 5. You should
   refer to the score rubric.
3. The output format should look as follows: [FEEDBACK] (write a feedback for criteria)
   [SCORE] (an integer number between 1 and 5)
4. Please do not generate any other opening, closing, and explanations."""

INSTRUCTION = (
    "Why was the decision to camp at Valley Forge significant?\n\nConsider its geographical "
    "aspects."
)
REFERENCE = (
    "1. Military: the training.\n2. Political: the resilience.\n\nIn essence, it was a "
    "masterstroke."
)
CRITERIA = (
    "Does the response reflect key historical facts, and apply them logically and coherently?"
)
RESPONSE = (
    "For several reasons:\n\n- Symbolism: it symbolized resilience.\n- Strategic location: near "
    "Philadelphia."
)
OUTPUT = "[FEEDBACK] The facts are there. However, it could have been more specific.\n\n[SCORE] 4"

ENDING = "---\n\nPlease evaluate the response according to the score rubric above."
SHORT: dict[str, Any] = {
    "instruction": "How?",
    "response": "Mix both.",
    "rubric": Rubric("Is it short?"),
}


def contents(messages: list[Message]) -> tuple[str, str]:
    assert [message["role"] for message in messages] == ["system", "user"]
    return messages[0]["content"], messages[1]["content"]


def test_the_example() -> None:
    system, user = contents(
        rubric_prompt(INSTRUCTION, RESPONSE, Rubric(CRITERIA), REFERENCE).messages
    )
    assert system == SYSTEM
    assert user == (
        f"### Instruction\n\n{INSTRUCTION}\n\n"
        f"### Reference Response\n\n{REFERENCE}\n\n"
        f"### Score Rubric\n\n{CRITERIA}\n\n"
        f"### Response To Evaluate\n\n{RESPONSE}\n\n"
        f"{ENDING}"
    )
    assert SCORE_PARSERS["feedback_score"](OUTPUT, Scale()) == 4


def test_without_a_reference_nothing_speaks_of_one() -> None:
    system, user = contents(rubric_prompt(INSTRUCTION, RESPONSE, Rubric(CRITERIA)).messages)
    assert system == SYSTEM.replace(" a reference answer that gets a score of 5,", "")
    assert user == (
        f"### Instruction\n\n{INSTRUCTION}\n\n"
        f"### Score Rubric\n\n{CRITERIA}\n\n"
        f"### Response To Evaluate\n\n{RESPONSE}\n\n"
        f"{ENDING}"
    )
    for output_format in ("feedback_score", "result"):
        shown = "".join(contents(rubric_prompt(**SHORT, output_format=output_format).messages))
        assert "reference" not in shown.lower()
        assert "None" not in shown
        assert "{" not in shown


def test_the_other_format_and_another_scale() -> None:
    result = SYSTEM.replace("[FEEDBACK]", "Feedback:").replace("[SCORE]", "[RESULT]")
    assert rubric_instructions(Scale(), "result", with_reference=True) == result
    assert rubric_instructions(Scale(0, 10), "feedback_score", with_reference=True) == (
        SYSTEM.replace("a score of 5", "a score of 10").replace(
            "between 1 and 5", "between 0 and 10"
        )
    )
    wide = Rubric("Is it short?", scale=Scale(-2, 2))
    system, _ = contents(rubric_prompt("How?", "Mix both.", wide, output_format="result").messages)
    assert system.count("between -2 and 2") == 2
    assert "5" not in system


def test_a_rubric_of_described_levels() -> None:
    levels = {3: "So so.", 1: "Bad.", 5: "Good.", 2: "Poor.", 4: "Fair."}
    rubric = Rubric("Is it short?", levels)
    lines = (
        "Is it short?\nScore 1: Bad.\nScore 2: Poor.\nScore 3: So so.\nScore 4: Fair.\nScore 5: "
        "Good."
    )
    assert rubric.text == lines
    _, user = contents(rubric_prompt("How?", "Mix both.", rubric).messages)
    assert f"### Score Rubric\n\n{lines}\n\n### Response To Evaluate\n\n" in user
    assert (
        Rubric("Is it short?", {5: "Good.", 1: "Bad."}).text
        == "Is it short?\nScore 1: Bad.\nScore 5: Good."
    )
    assert (
        Rubric("Is it short?", {0: "No.", 1: "Yes."}, Scale(0, 1)).text
        == "Is it short?\nScore 0: No.\nScore 1: Yes."
    )
    assert Rubric("Is it short?").text == "Is it short?"


def test_a_custom_prompt_replaces_the_built_in_one_as_it_is() -> None:
    custom = "Judge {reference} by {scale}.\r\n  é "
    system, user = contents(
        rubric_prompt(**SHORT, system_prompt=custom, system="Think first.").messages
    )
    assert system == f"Think first.\n\n{custom}"
    assert user == contents(rubric_prompt(**SHORT).messages)[1]
    assert contents(rubric_prompt(**SHORT, system_prompt=custom).messages)[0] == custom
