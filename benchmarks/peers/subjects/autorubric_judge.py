"""autorubric's `CriterionGrader` with a rubric of one criterion."""

from __future__ import annotations

from timed import CRITERION, QUESTION, Judge, run


def opened(base_url: str) -> Judge:
    from autorubric import Criterion, LLMConfig, Rubric
    from autorubric.graders import CriterionGrader

    config = LLMConfig(model="openai/judge", api_base=base_url, api_key="none")
    grader = CriterionGrader(judge_model_config=config)
    rubric = Rubric([Criterion(name="correctness", weight=1.0, requirement=CRITERION)])

    async def ask(answer: str) -> bool:
        report = await rubric.grade(answer, grader=grader, query=QUESTION)
        return report.score == 1.0

    return ask


if __name__ == "__main__":
    run("autorubric", opened)
