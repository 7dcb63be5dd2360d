"""Your own environment: does the policy keep to the question's language, turn by turn?"""

from collections.abc import Sequence

from language import PROMPT, LanguageJudge, LanguageJudgeSettings

from judgegym import environments as envs


class LanguageConfig(envs.EnvConfig, LanguageJudgeSettings):
    unused_settings = ("judge_output",)  # by LanguageJudge

    dataset: str = envs.setting("questions.jsonl", "Ask its prompts.", group="data", common=True)


class LanguageEnv(envs.JudgedEnv[LanguageConfig, envs.PromptTask, envs.ScoreParts]):
    spec = envs.EnvSpec(
        name="language",
        headline=("same_language", "same language"),
        judge=LanguageJudge,
        offline_prompts=(PROMPT,),
    )

    def tasks(self, split: envs.Split) -> Sequence[envs.PromptTask]:
        return envs.prompt_tasks(self.config.dataset)

    def conversations(self, task: envs.PromptTask) -> list[envs.Conversation]:
        return [[*self.system_messages, *task.messages]]

    async def judge(self, task: envs.PromptTask, completions: Sequence[envs.Completion]):
        answer = completions[0].answer
        return await self.answer_judge.judge(envs.JudgeTask(task.question, (answer,)))

    def record_metrics(self, metrics, task: envs.PromptTask, sample: envs.Sample) -> None:
        metrics.rate("same_language", sample.score == 1.0, interval=True)


if __name__ == "__main__":
    LanguageEnv.cli()
