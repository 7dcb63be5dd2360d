"""OpenJudge's `LLMGrader` with a template."""

from __future__ import annotations

from timed import CRITERION, QUESTION, Judge, run

TEMPLATE = (
    "{criterion}\n\nQuestion: {query}\nSubmission: {response}\n\n"
    'Answer with a JSON object: {{"reason": "...", "score": 1 for yes or 0 for no}}'
)


def opened(base_url: str) -> Judge:
    from openjudge.graders.llm_grader import LLMGrader
    from openjudge.models.openai_chat_model import OpenAIChatModel

    model = OpenAIChatModel(model="judge", api_key="none", base_url=base_url)
    grader = LLMGrader(model=model, name="correctness", template=TEMPLATE)

    async def ask(answer: str) -> bool:
        result = await grader.aevaluate(criterion=CRITERION, query=QUESTION, response=answer)
        return getattr(result, "score", None) == 1

    return ask


if __name__ == "__main__":
    run("py-openjudge", opened)
