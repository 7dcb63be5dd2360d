"""Brief answers: any judge scores them (--env.judge), and a rule halves the score of long ones."""

from judgegym import environments as envs


class BriefConfig(envs.AnyJudgeConfig):
    dataset: str = envs.setting("questions.jsonl", "Ask its questions.", group="data", common=True)
    most_words: int = envs.setting(60, "Halve the score of a longer answer.", common=True, ge=1)


class BriefEnv(envs.JudgedEnv[BriefConfig, envs.PromptTask, envs.ScoreParts]):
    spec = envs.EnvSpec(name="brief", headline=("mean_score", "score"))

    def tasks(self, split):  # which rows?
        judge = self.answer_judge
        return envs.prompt_tasks(self.config.dataset, also=judge.shown_columns, check=judge.check)

    def conversations(self, task):  # what is the policy asked?
        return [[*self.system_messages, *task.messages]]

    async def judge(self, task, completions):  # what do the judge and the rule say?
        judgment = await self.answer_judge.judge_answer(task, completions[0].answer)
        is_long = len(completions[0].answer.split()) > self.config.most_words
        return judgment.scale_score(0.5) if is_long else judgment

    def record_metrics(self, metrics, task, sample):  # what is counted?
        metrics.mean("mean_score", sample.score or 0.0, interval=True)


if __name__ == "__main__":
    BriefEnv.cli()
