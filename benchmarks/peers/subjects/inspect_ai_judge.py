"""inspect_ai's scorer `model_graded_qa`, called for the state of a finished sample."""

from __future__ import annotations

from timed import CRITERION, QUESTION, Judge, run


def opened(base_url: str) -> Judge:
    from inspect_ai.model import GenerateConfig, ModelName, ModelOutput, get_model
    from inspect_ai.scorer import Target, model_graded_qa
    from inspect_ai.solver import TaskState

    config = GenerateConfig(max_connections=1000)
    model = get_model(
        "openai/judge", base_url=base_url, api_key="none", config=config, responses_api=False
    )
    score = model_graded_qa(model=model)

    async def ask(answer: str) -> bool:
        output = ModelOutput.from_content("policy", answer)
        state = TaskState(ModelName("mock/policy"), 1, 1, QUESTION, [], output=output)
        result = await score(state, Target(CRITERION))
        return result is not None and result.value == "C"

    return ask


if __name__ == "__main__":
    run("inspect-ai", opened)
