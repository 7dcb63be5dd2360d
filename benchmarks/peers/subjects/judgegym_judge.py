"""JudgeGym's aspect judge by its public interface, a call of `judge` for each answer."""

from __future__ import annotations

from timed import CRITERION, QUESTION, Judge, run


def opened(base_url: str) -> Judge:
    from judgegym import AspectJudge

    aspect = {"name": "correctness", "definition": CRITERION}
    judge = AspectJudge(aspects=[aspect], judge_model_name="judge", judge_base_url=base_url)

    async def ask(answer: str) -> bool:
        table = await judge.judge(QUESTION, answer)
        return table[0].score == 1.0

    return ask


if __name__ == "__main__":
    run("judgegym", opened)
