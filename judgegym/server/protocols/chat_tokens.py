"""Texts with special tokens: cleaned prompts and responses, and the response in a query.

Some trainers do not skip special tokens when they decode.

A query is the text that a trainer decodes from the tokens of prompt and response. It need not begin
with the prompt as it was before tokenizing: white space and special tokens differ, and a long
prompt is cut from the left. Guarantees: no part of the prompt is taken for the response, and a turn
header that the policy itself wrote hides none of its earlier text. Where both cannot hold, there is
no response. Time is linear in the text.
"""

from __future__ import annotations

import re

from judgegym.llm.template_tokens import TEMPLATE_TOKEN, strip_trailing_tokens

# Role and text of a turn: ChatML (Qwen and others), Llama 3, Gemma.
_TURNS = (
    re.compile(r"<\|im_start\|>(?P<role>\w+)\n(?P<text>.*?)(?:<\|im_end\|>|\Z)", re.DOTALL),
    re.compile(
        r"<\|start_header_id\|>(?P<role>\w+)<\|end_header_id\|>\n\n(?P<text>.*?)(?:<\|eot_id\|>|\Z)",
        re.DOTALL,
    ),
    re.compile(r"<start_of_turn>(?P<role>\w+)\n(?P<text>.*?)(?:<end_of_turn>|\Z)", re.DOTALL),
)


def plain_prompt(text: str) -> str:
    """Return the user's turn without tokens; of several turns, all with their roles.

    A text without turns is returned without special tokens.
    """
    for pattern in _TURNS if "<" in text else ():  # all of them begin with this sign
        turns = [(match["role"], match["text"].strip()) for match in pattern.finditer(text)]
        filled = [(role, words) for role, words in turns if words]
        if filled:
            user_texts = [words for role, words in filled if role == "user"]
            if len(user_texts) == 1 and all(role in ("user", "system") for role, _ in filled):
                return user_texts[0]
            return "\n\n".join(f"{role}: {words}" for role, words in filled)
    return TEMPLATE_TOKEN.sub("", text).strip()


def plain_response(text: str) -> str:
    """Return a response without special tokens at its end; inner tokens may belong to it."""
    return strip_trailing_tokens(text).strip()


NOT_FOUND = (
    "the response was not found in the query: it neither begins with the prompt nor has one "
    "assistant's header"
)

# The header of an assistant's turn: ChatML, Llama 3, Gemma, gpt-oss, Granite, Kimi, Cohere,
# DeepSeek, Phi, Mistral.
_HEADER = re.compile(
    r"<\|im_start\|>assistant\n|<\|start_header_id\|>assistant<\|end_header_id\|>|<start_of_turn>model\n|<\|turn>model\n"
    r"|<\|start\|>assistant(?:<\|channel\|>final)?<\|message\|>|<\|start_of_role\|>assistant<\|end_of_role\|>"
    r"|<\|im_assistant\|>assistant<\|im_middle\|>|<\|START_OF_TURN_TOKEN\|><\|CHATBOT_TOKEN\|>|<｜Assistant｜>"
    r"|<\|assistant\|>|\[/INST\]"
)
_BETWEEN = re.compile(rf"\s+|{TEMPLATE_TOKEN.pattern}")
_HALF_A_CHARACTER = "�"
_LEAST_REST = 16
"""Minimum length of a cut prompt's remainder; a shorter match may be part of the response."""
_MOST_TRIED = 20


def find_response(query: str, prompt: str) -> str | None:
    """Return the response in a query; `None` if it cannot be told apart from the prompt.

    Args:
        query: the decoded tokens of prompt and response.
        prompt: the prompt before tokenizing.
    """
    if prompt.strip() and query.startswith(prompt):
        return query[len(prompt) :]
    words = _words(query)
    prompt_words = _words(prompt)
    length = _prompt_length(words, prompt_words.lstrip(_HALF_A_CHARACTER))
    if length is None:
        return _cut_header(query, prompt)
    return _skip_prompt(
        query,
        length,
        ending=TEMPLATE_TOKEN.findall(prompt, _index_after(prompt, len(prompt_words))),
    )


def _words(text: str) -> str:
    """Return the text without white space and special tokens."""
    return "".join(TEMPLATE_TOKEN.sub(" ", text).split())


def _prompt_length(query: str, prompt: str) -> int | None:
    """Return how many leading characters of `query` are `prompt`, or its longest suffix.

    Both texts have no white space and no special tokens.
    """
    if not prompt:
        return None
    if query.startswith(prompt):
        return len(prompt)
    cut = len(query) - len(query.lstrip(_HALF_A_CHARACTER))
    start = query[cut : cut + _LEAST_REST]
    index = -1
    if len(start) == _LEAST_REST:
        index = prompt.find(start)
    for _ in range(_MOST_TRIED):
        if index < 0:
            return None
        if query.startswith(prompt[index:], cut):
            return cut + len(prompt) - index
        index = prompt.find(start, index + 1)
    return None


def _skip_prompt(query: str, length: int, *, ending: list[str]) -> str:
    """Return `query` after `length` characters, not counting white space and special tokens.

    Args:
        query: the text.
        length: the number of characters.
        ending: the special tokens at the end of the prompt; any others belong to the response.
    """
    index = _index_after(query, length)
    while (match := _BETWEEN.match(query, index)) is not None:
        if match[0] in ending:
            ending.remove(match[0])
        elif not match[0].isspace():
            break
        index = match.end()
    return query[index:]


def _index_after(text: str, length: int) -> int:
    """Return the index after `length` characters, not counting white space and special tokens."""
    start = 0
    left = length
    for token in TEMPLATE_TOKEN.finditer(text):
        count = _count(text, start, token.start())
        if count >= left:
            return _index_within(text, start, token.start(), left)
        start = token.end()
        left = left - count
    return _index_within(text, start, len(text), left)


def _index_within(text: str, start: int, end: int, length: int) -> int:
    """Return the index after `length` characters within a part without tokens, by bisection."""
    while length > 0 and end - start > 1:
        middle = (start + end) // 2
        count = _count(text, start, middle)
        if count >= length:
            end = middle
        else:
            start = middle
            length = length - count
    if length > 0:
        return end
    return start


def _count(text: str, start: int, end: int) -> int:
    return sum(map(len, text[start:end].split()))


def _cut_header(query: str, prompt: str) -> str | None:
    """Return the text after the header of the last turn, if that header belongs to the prompt."""
    headers = list(_HEADER.finditer(query))
    prompt_headers = sum(1 for _ in _HEADER.finditer(prompt))
    if not headers or len(headers) > max(1, prompt_headers):
        if not headers and not prompt.strip():
            return query
        return None
    return query[headers[-1].end() :].lstrip()
