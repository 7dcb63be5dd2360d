"""Between messages and tokens: the renderer of a policy, and what its sampled tokens say.

Guarantees: no sampled tokens raise an error; thinking that the renderer knows is apart from the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tinker_cookbook.exceptions import RendererError
from tinker_cookbook.renderers import Renderer, get_renderer, get_text_content
from tinker_cookbook.rl.types import StopReason
from tinker_cookbook.tokenizer_utils import get_tokenizer

from judgegym.llm.wire import Choice


@dataclass(frozen=True, slots=True)
class TinkerCompletion:
    """What a policy has sampled.

    Attributes:
        choice: text, thinking, and whether the text was cut off.
        is_parsed: whether the tokens end as the renderer expects it.
    """

    choice: Choice
    is_parsed: bool

    @property
    def stop_reason(self) -> StopReason:
        """Why the rollout ends here, in the cookbook's words."""
        if self.choice.finish_reason == "length":
            return StopReason.MAX_TOKENS
        return StopReason.COMPLETED if self.is_parsed else StopReason.PARSE_ERROR


@cache
def renderer_of(renderer_name: str, model_name: str) -> Renderer:
    """The renderer of that name with the tokenizer of a model, which may be a folder; one for each process."""
    return get_renderer(renderer_name, get_tokenizer(model_name), model_name=model_name)


def read_answer(renderer: Renderer, tokens: Sequence[int], stop_reason: str | None) -> TinkerCompletion:
    """Read sampled tokens, of which `length` as the reason to stop says that they were cut off."""
    finish = "length" if stop_reason == "length" else "stop"
    try:
        message, termination = renderer.parse_response(list(tokens))
    except RendererError:  # more than one turn: all of it is the policy's answer, in the wrong format
        return TinkerCompletion(Choice(str(renderer.tokenizer.decode(list(tokens))), finish_reason=finish), False)
    content = message["content"]
    parts = [] if isinstance(content, str) else content
    thinking = "".join(part["thinking"] for part in parts if part["type"] == "thinking")
    return TinkerCompletion(Choice(get_text_content(message), thinking or None, finish), termination.is_clean)
