"""An agent of rLLM for the tests: one call of the model, whose answer rLLM's gateway records."""

from __future__ import annotations

import rllm
from openai import AsyncOpenAI
from rllm.types import AgentConfig, Task


@rllm.rollout
async def solver(task: Task, config: AgentConfig) -> None:
    messages = task.metadata.get("messages") or [{"role": "user", "content": task.instruction}]
    async with AsyncOpenAI(base_url=config.base_url, api_key="none", max_retries=0) as client:
        await client.chat.completions.create(model=config.model, messages=messages)
