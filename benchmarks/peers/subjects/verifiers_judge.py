"""verifiers' `Judge` with a yes/no prompt, as its docstring shows it."""

from __future__ import annotations

import os

from timed import CRITERION, QUESTION, Judge, run

PROMPT = "{criterion}\n\nQuestion: {question}\nSubmission: {response}\n\nAnswer yes or no."


def opened(base_url: str) -> Judge:
    os.environ["PEER_KEY"] = "none"
    import verifiers.v1 as vf

    class YesNo(vf.Judge[bool]):
        prompt = PROMPT

        def parse(self, response: vf.JudgeResponse[bool]) -> bool:
            return response.text.strip().lower().startswith("yes")

    judge = YesNo(vf.JudgeConfig(model="judge", base_url=base_url, api_key_var="PEER_KEY"))

    async def ask(answer: str) -> bool:
        result = await judge.evaluate(criterion=CRITERION, question=QUESTION, response=answer)
        return bool(result.parsed)

    return ask


if __name__ == "__main__":
    run("verifiers", opened)
