"""The APIs of endpoints: OpenAI's, Anthropic's own, decision models', others through litellm."""

from __future__ import annotations

from functools import cache

from judgegym.llm.providers.api import Api, ApiName

__all__ = ["Api", "ApiName", "load_api"]


@cache
def load_api(name: ApiName) -> Api:
    """Return the API with this name; its modules are imported only now."""
    if name == "anthropic":
        from judgegym.llm.providers.anthropic import AnthropicApi

        return AnthropicApi()
    if name == "litellm":
        from judgegym.llm.providers.litellm import LiteLLMApi

        return LiteLLMApi()
    if name == "decisions":
        from judgegym.llm.providers.decisions import DecisionsApi

        return DecisionsApi()
    return Api()
