"""Brief answers: any judge scores them (--env.judge), and a rule halves the score of one that is too long."""

from judgegym.environments import AnyJudgeConfig, EnvSpec, JudgedEnv, PromptTask, ScoreParts, prompt_tasks, setting


class BriefConfig(AnyJudgeConfig):
    dataset: str = setting("questions.jsonl", "Ask the questions of this dataset.", group="data", common=True)
    most_words: int = setting(60, "Halve the score of a longer answer.", common=True, ge=1)


class BriefEnv(JudgedEnv[BriefConfig, PromptTask, ScoreParts]):
    spec = EnvSpec(name="brief", headline=("mean_score", "score"))

    def tasks(self, split):  # which rows?
        judge = self.answer_judge
        return prompt_tasks(self.config.dataset, also=judge.shown_columns, check=judge.check)

    def conversations(self, task):  # what is the policy asked?
        return [[*self.system_messages, *task.messages]]

    async def judge(self, task, completions):  # what do the judge and the rule say?
        judgment = await self.answer_judge.judge_answer(task, completions[0].answer)
        return judgment.scaled(0.5) if len(completions[0].answer.split()) > self.config.most_words else judgment

    def record_metrics(self, metrics, task, sample):  # what is counted?
        metrics.mean("mean_score", sample.score or 0.0, interval=True)


if __name__ == "__main__":
    BriefEnv.cli()
