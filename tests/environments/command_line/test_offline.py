import aiohttp
import pytest

from judgegym.engine.settings import EnvSettings
from judgegym.environments.command_line import offline
from judgegym.environments.command_line.offline import SOURCE, STAND_IN_URL, stand_ins
from judgegym.eval_environments.arena.environment import ArenaHardConfig
from judgegym.eval_environments.arena_hard_environment import ArenaHardEnv
from judgegym.judges.config.sources import LoadedSettings
from judgegym.judges.core.prompt_format import PromptFormat
from judgegym.llm.errors import SettingsError
from tests.engine.loading import loaded_from

PROMPT = PromptFormat(sections=("Claim",), judged=("Claim",), reply=lambda shown: "It is true.")
URL = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("flags", "judge", "policy"),
    [
        (["--offline"], True, True),
        (["--offline", f"--env.judge_base_url={URL}"], False, True),
        (["--offline", f"--openai.base_url={URL}"], True, False),
        (["--offline", f'--openai.replicas=[{{"base_url": "{URL}"}}]'], True, False),
        (["--offline", "--env.model_answers=x.jsonl"], True, False),
        (["--offline", f"--env.judge_base_url={URL}", f"--openai.base_url={URL}"], False, False),
        (["--offline", "--openai.model_name=mine", "--env.judge_model_name=ours"], True, True),
        ([], False, False),
    ],
)
def test_which_endpoints_are_stand_ins(flags: list[str], judge: bool, policy: bool) -> None:
    which = stand_ins(loaded_from(*flags))
    assert (which.judge, which.policy) == (judge, policy)
    assert which.names == tuple(name for name, is_one in (("judge", judge), ("policy", policy)) if is_one)


def test_names_that_are_given_are_kept() -> None:
    settings = loaded_from("--offline", "--openai.model_name=mine").settings
    assert (settings.openai.model_name, settings.env.judge_model_name) == ("mine", "offline-judge")


def test_the_bundled_samples_are_used_unless_others_are_given() -> None:
    assert loaded_from("--offline").settings.env.train_prompt_dataset.endswith("samples/arena_hard.jsonl")
    assert loaded_from("--offline", "--env.train_prompt_dataset=x").settings.env.train_prompt_dataset == "x"


async def is_served(url: str) -> bool:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{url}/models") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False


@pytest.mark.slow
async def test_stand_ins_run_while_the_block_does() -> None:
    loaded = loaded_from("--offline")
    async with offline.running(loaded) as settings:
        urls = {settings.env.judge_base_url, settings.openai.base_url}
        assert len(urls) == 2, "one for each role, so that neither's load is the other's"
        assert all([await is_served(url) for url in urls])
    assert not any([await is_served(url) for url in urls])
    assert loaded.settings.env.judge_base_url == STAND_IN_URL, "what was loaded is not changed"


@pytest.mark.slow
async def test_an_endpoint_that_is_given_is_left_alone() -> None:
    async with offline.running(loaded_from("--offline", f"--env.judge_base_url={URL}")) as settings:
        assert settings.env.judge_base_url == URL
        assert settings.openai.base_url not in (URL, STAND_IN_URL)


@pytest.mark.parametrize("faults", ['{"999": 0.1}', '{"500": 2}'])
async def test_unusable_faults(faults: str) -> None:
    with pytest.raises(SettingsError, match="--faults"):
        async with offline.running(loaded_from("--offline", f"--faults={faults}")):
            pass


@pytest.mark.slow
async def test_the_judges_stand_in_knows_the_environments_prompts_and_refuses_others() -> None:
    async with offline.running(loaded_from("--offline"), [PROMPT]) as settings, aiohttp.ClientSession() as session:
        statuses = []
        for url in (settings.env.judge_base_url, settings.openai.base_url):
            for text in ("[Claim]\nIt rains.", "[Guess]\nIt rains."):
                body = {"model": "m", "messages": [{"role": "user", "content": text}]}
                async with session.post(f"{url}/chat/completions", json=body) as answer:
                    statuses.append((answer.status, "does not know this prompt" in await answer.text()))
    assert statuses == [(200, False), (400, True), (200, False), (200, False)]


@pytest.mark.slow
async def test_a_prompt_that_cannot_be_loaded_is_an_error_that_names_it() -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.py"):
        async with offline.running(loaded_from("--offline"), ["nowhere.py:PROMPT"]):
            pass


def test_it_is_the_environment_that_knows_its_samples() -> None:
    loaded: LoadedSettings[EnvSettings[ArenaHardConfig]] = loaded_from("--offline")
    for name, path in ArenaHardEnv.offline_samples.items():
        assert (getattr(loaded.settings.env, name), loaded.origins[f"env.{name}"]) == (path, SOURCE)
