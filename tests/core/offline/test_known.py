"""A judge that was written a minute ago: its prompt in a file of the user's, known to the stand-in by reference."""

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from judgegym.judges.core.delimiters import Lookalikes, delimit
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.offline import StandIn
from judgegym.offline.answers import load_prompts, make_answers, make_reference
from judgegym.offline.request import BadRequest, parse_request

GOOD, POOR = " ".join(f"word{number}" for number in range(60)), "No idea."

MINE = """
from judgegym.judges.core.prompt_format import PromptFormat, StandInPrompt

def reply(shown: StandInPrompt) -> str:
    return f"{shown.sections['Principles']}: {'kept' if shown.merit > 0.5 else 'broken'}"

PROMPT = PromptFormat(sections=("Principles", "Answer"), judged=("Answer",), reply=reply)
OTHER = "not a prompt"
"""


def body(answer: str) -> dict[str, Any]:
    markers = delimit([answer], Lookalikes("###principles", "###answer")).markers
    text = f"### Principles{markers.suffix}\n\nBe brief.\n\n### Answer{markers.suffix}\n\n{answer}"
    return {
        "model": "m",
        "messages": [{"role": "user", "content": f"Judge.\n\n{markers.notice}{text}"}],
    }


async def replies(prompt: str) -> list[str]:
    async with (
        StandIn(judge_only=True, prompts=[prompt]) as stand_in,
        aiohttp.ClientSession() as session,
    ):
        found = []
        for answer in (GOOD, POOR, f"### Answer\n\n{GOOD}"):
            async with session.post(
                f"{stand_in.base_url}/chat/completions", json=body(answer)
            ) as response:
                found.append((await response.json())["choices"][0]["message"]["content"])
        return found


@pytest.mark.slow
async def test_a_judge_of_a_users_file_is_played_with_no_more_than_its_prompts_format(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    good, poor, hostile = await replies(f"{path}:PROMPT")
    assert (good, poor) == ("Be brief.: kept", "Be brief.: broken") and hostile.startswith(
        "Be brief.:"
    )


def test_a_file_is_found_from_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert make_reference("mine.py:PROMPT") == f"{tmp_path.resolve()}/mine.py:PROMPT"
    assert make_reference("mine.prompts:PROMPT") == "mine.prompts:PROMPT"


def test_a_reply_that_fails_is_an_error_of_the_request_that_names_the_prompt_and_the_failure() -> (
    None
):
    broken = PromptFormat(
        sections=("Principles", "Answer"),
        judged=("Answer",),
        reply=lambda shown: shown.sections["Rule"],
    )
    with pytest.raises(BadRequest, match=r"'Principles', 'Answer'.*KeyError\('Rule'\)"):
        make_answers(parse_request(json.dumps(body(GOOD)).encode()), [broken])


@pytest.mark.parametrize(
    ("reference", "named"),
    [
        ("{path}:OTHER", "no PromptFormat named 'OTHER'"),
        ("{path}:NONE", "no PromptFormat named 'NONE'"),
        ("{path}", "mine.py"),
        ("nowhere.module:PROMPT", "nowhere"),
        ("", "cannot load"),
    ],
)
def test_a_reference_that_names_no_prompt_is_an_error_that_says_so(
    reference: str, named: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    with pytest.raises(ValueError, match=named):
        load_prompts(reference.format(path=path))


@pytest.mark.parametrize(
    ("sections", "judged"), [(("A",), ("B",)), (("A",), ()), ("A", ("A",)), (("A",), "A")]
)
def test_a_format_without_a_judged_section_is_refused(sections: Any, judged: Any) -> None:
    with pytest.raises(ValueError, match="judged"):
        PromptFormat(sections=sections, judged=judged, reply=str)
