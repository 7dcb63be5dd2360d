"""Judges that take settings of others: members, parts, cascades, mounts, gold judges; who has which key.

The six cases of keys are here for each host: a member that says nothing, one at the same host, one
at a host of its own that needs no key, one at a public host, one that names its variable, and one
whose host is that of the defaults.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.conformance.equal_settings.case import Case

Fields = Mapping[str, object]

WHOLES: Mapping[str, Fields] = {
    "named": {
        "judge_base_url": "https://api.mine.example/v1",
        "judge_model_name": "w",
        "judge_api_key_env": "MINE",
        "judge_price_input": 3,
        "judge_price_output": 15,
        "judge_max_concurrency": 5,
        "judge_requests_per_minute": 60,
        "judge_deadline": 77,
        "judge_temperature": 0.5,
        "judge_max_tokens": 99,
        "judge_extra_headers": {"x-a": "1"},
        "judge_extra_body": {"top_p": 0.9},
    },
    "keyed": {
        "judge_base_url": "https://api.mine.example/v1",
        "judge_model_name": "w",
        "judge_api_key": "own-key",
    },
    "local": {
        "judge_base_url": "http://127.0.0.1:9/v1,http://127.0.0.1:8/v1",
        "judge_model_name": "gpt-6-luna",
    },
    "default": {},
    "openai": {"judge_base_url": "https://api.openai.com/v1", "judge_model_name": "gpt-6-luna"},
}
"""The settings of a judge that others inherit from."""

MEMBERS: Mapping[str, Fields] = {
    "says_nothing": {},
    "same_host": {"judge_model_name": "n"},
    "priced": {
        "judge_model_name": "n",
        "judge_price_input": 1,
        "judge_price_output": 2,
        "judge_max_concurrency": 7,
    },
    "elsewhere": {"judge_base_url": "http://127.0.0.1:7/v1"},
    "public": {"judge_base_url": "https://evil.example/v1", "judge_model_name": "n"},
    "named": {"judge_base_url": "https://other.example/v1", "judge_api_key_env": "OTHER"},
    "keyed": {"judge_base_url": "https://other.example/v1", "judge_api_key": "members-key"},
    "headed": {
        "judge_base_url": "https://other.example/v1",
        "judge_extra_headers": {"Authorization": "Bearer x"},
    },
    "default_host": {
        "judge_base_url": "https://api.anthropic.com/v1",
        "judge_model_name": "claude-sonnet-4-6",
    },
    "hot": {"judge_temperature": 1.25, "judge_max_tokens": 7, "judge_extra_body": {"min_p": 0.1}},
    "anthropic": {"judge_api": "anthropic", "judge_base_url": "https://api.anthropic.com/v1"},
    "voting": {"samples_per_item": 3},
}
"""What one of them says of its own."""


def _rows() -> Mapping[str, str]:
    row = {"prompt": "Why?", "response": "Because.", "rubric": "Is it right?"}
    return {
        "rows.jsonl": "".join(
            f"{json.dumps({**row, 'prompt': f'Why {number}?'})}\n" for number in range(3)
        )
    }


def _score(whole: Fields, **settings: object) -> Sequence[str]:
    return ["score", "rows.jsonl", "--out=scored.jsonl", *_flags({**whole, **settings})]


def _flags(fields: Fields, prefix: str = "") -> list[str]:
    return [
        f"--{prefix}{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in fields.items()
    ]


def _jury(whole: Fields, member: Fields) -> Sequence[str]:
    return _score(whole, judges={"a": {"judge": "rubric"}, "b": {"judge": "rubric", **member}})


def _composite(whole: Fields, member: Fields) -> Sequence[str]:
    parts = {
        "a": {"judge": "rule", "rule": "exact", "weight": 1},
        "b": {"judge": "rubric", "weight": 2, **member},
    }
    return _score(whole, judge="composite", reward=parts)


def _cascade(whole: Fields, member: Fields) -> Sequence[str]:
    return _score(whole, cascade={"a": {"judge": "rubric", **member}, "b": {"judge": "rubric"}})


def _steps(whole: Fields, member: Fields) -> Sequence[str]:
    return _score(whole, judge="steps", steps_judge={"judge": "rubric", **member})


def _nested(whole: Fields, member: Fields) -> Sequence[str]:
    jury = {
        "judge": "jury",
        "weight": 1,
        "judges": {"x": {"judge": "rubric", **member}, "y": {"judge": "rubric"}},
    }
    return _score(whole, judge="composite", reward={"jury": jury})


def _nested_whole(whole: Fields, member: Fields) -> Sequence[str]:
    jury = {
        "judge": "jury",
        "weight": 1,
        "judges": {"x": {"judge": "rubric"}, "y": {"judge": "peer"}},
        **member,
    }
    jury.pop("samples_per_item", None)
    return _score(whole, judge="composite", reward={"jury": jury})


def _mount(whole: Fields, member: Fields) -> Sequence[str]:
    return ["judge-server", *_flags({**whole, "mounts": {"b": {"judge": "rubric", **member}}})]


def _mounted_jury(whole: Fields, member: Fields) -> Sequence[str]:
    members = {"x": {"judge": "rubric", **member}, "y": {"judge": "peer"}}
    return [
        "judge-server",
        *_flags({**whole, "mounts": {"b": {"judge": "jury", "judges": members}}}),
    ]


def _gold_of_server(whole: Fields, member: Fields) -> Sequence[str]:
    return [
        "judge-server",
        "--run_dir=run",
        *_flags({**whole, "gold_judge": {"judge": "rubric", **member}}),
    ]


def _environment(
    whole: Fields, settings: Fields, verb: str = "evaluate", name: str = "prompts"
) -> Sequence[str]:
    data = {"eval_dataset" if verb == "evaluate" else "train_dataset": "rows.jsonl"}
    policy = ["--openai.base_url=http://127.0.0.1:6/v1", "--openai.model_name=p"]
    return [verb, name, *_flags({**data, **whole, **settings}, "env."), *policy]


def _jury_of_environment(whole: Fields, member: Fields) -> Sequence[str]:
    return _environment(
        whole, {"judges": {"a": {"judge": "rubric"}, "b": {"judge": "rubric", **member}}}
    )


def _part_of_environment(whole: Fields, member: Fields) -> Sequence[str]:
    return _environment(
        whole, {"judge": "composite", "reward": {"b": {"judge": "rubric", "weight": 1, **member}}}
    )


def _gold_of_training(whole: Fields, member: Fields) -> Sequence[str]:
    return _environment(
        whole, {"total_steps": 2, "gold_judge": {"judge": "rubric", **member}}, "process"
    )


def _members_of_rubric(whole: Fields, member: Fields) -> Sequence[str]:
    return _environment(
        whole, {"judges": {"a": {}, "b": {**member}}}, "evaluate", "rubric_absolute"
    )


HOSTS: Mapping[str, Callable[[Fields, Fields], Sequence[str]]] = {
    "jury": _jury,
    "composite": _composite,
    "cascade": _cascade,
    "steps": _steps,
    "nested": _nested,
    "nested_whole": _nested_whole,
    "mount": _mount,
    "mounted_jury": _mounted_jury,
    "gold_of_server": _gold_of_server,
    "jury_of_environment": _jury_of_environment,
    "part_of_environment": _part_of_environment,
    "gold_of_training": _gold_of_training,
    "members_of_rubric": _members_of_rubric,
}
"""Who has a judge that takes settings of another one, or, as a gold judge, takes none."""


_OF_EVERY_WHOLE = ("same_host", "elsewhere", "public")
_WITH_CONFIG = ("hot", "elsewhere")
"""The members of the first whole for which `--show_config` is printed, too."""


def inheriting() -> Iterator[Case]:
    """Every host with every member of one judge, with some of every judge, and with some that lack a variable."""
    files = _rows()
    for host, words in HOSTS.items():
        for whole, fields in WHOLES.items():
            for member, own in MEMBERS.items():
                if whole == "named" or member in _OF_EVERY_WHOLE or host == "jury":
                    shows = whole == "named" and member in _WITH_CONFIG
                    yield Case(
                        f"{host} of {whole}: {member}",
                        words(fields, own),
                        files,
                        shows_config=shows,
                    )
        for member in ("same_host", "elsewhere", "public", "named"):
            lacking = words(WHOLES["named"], MEMBERS[member])
            yield Case(
                f"{host} without its variable: {member}",
                lacking,
                files,
                unset=("MINE",),
                shows_config=False,
            )
    yield from _others(files)


def _others(files: Mapping[str, str]) -> Iterator[Case]:
    """Models that are no judges, and settings that come from elsewhere than the command line."""
    own = {"base_url": "https://other.example/v1", "model_name": "n", "api_key_env": "OTHER"}
    priced = {
        "price": {"input": 1, "output": 2},
        "extra_body": {"top_p": 0.5},
        "extra_headers": {"x-a": "1"},
    }
    named = WHOLES["named"]
    policies: Mapping[str, Fields] = {
        "default": {},
        "named": {
            **own,
            **priced,
            "num_requests_for_eval": 3,
            "requests_per_minute": 9,
            "timeout": 8,
        },
        "elsewhere": {"base_url": "http://127.0.0.1:7/v1", "model_name": "n"},
        "public": {"base_url": "https://evil.example/v1", "model_name": "n"},
        "replicas": {
            "replicas": [
                {"base_url": "http://127.0.0.1:5/v1"},
                {"base_url": "https://evil.example/v1"},
            ],
            **own,
        },
        "anthropic": {
            "api": "anthropic",
            "base_url": "https://api.anthropic.com/v1",
            "api_key_env": "MINE",
        },
    }
    for name, fields in policies.items():
        for verb, environment in (("evaluate", "prompts"), ("process", "prompts")):
            data = {"eval_dataset" if verb == "evaluate" else "train_dataset": "rows.jsonl"}
            words = _flags({**named, **data}, "env.")
            yield Case(
                f"policy {name} {verb} {environment}",
                [verb, environment, *words, *_flags(fields, "openai.")],
                files,
            )
        sampled = _score(named, responses_per_prompt=2)
        yield Case(f"policy {name} score", [*sampled, *_flags(fields, "openai.")], files)
        user = {
            f"user_{inner}": value
            for inner, value in fields.items()
            if inner in own or inner in priced
        }
        talk = _environment(named, {"user_max_turns": 2, **user})
        yield Case(f"user {name}", talk, files)
        candidate = {inner: value for inner, value in fields.items() if inner in own}
        listed = [{"name": "a", "model_name": "x", **candidate}, {"name": "b", "model_name": "y"}]
        yield Case(
            f"candidates {name}",
            ["evaluate", "arena_hard", *_flags({**named, "candidates": listed}, "env.")],
            files,
        )
        peers = {**named, "candidates": listed, "judges": listed[:1], "dataset": "rows.jsonl"}
        yield Case(f"peers {name}", ["evaluate", "self_critique", *_flags(peers, "env.")], files)
    jury = {
        "judge": "jury",
        **named,
        "judges": {"a": dict(MEMBERS["elsewhere"]), "b": dict(MEMBERS["same_host"])},
    }
    yield Case(
        "score from YAML", [*_score({}), "--config=c.yaml"], {**files, "c.yaml": json.dumps(jury)}
    )
    yield Case(
        "server from YAML", ["judge-server", "--config=c.yaml"], {"c.yaml": json.dumps(jury)}
    )
    mounts = {**named, "mounts": {"a": jury, "b": {"judge": "cascade", "cascade": jury["judges"]}}}
    yield Case(
        "mounts from YAML", ["judge-server", "--config=c.yaml"], {"c.yaml": json.dumps(mounts)}
    )
    environment = {"env": {**jury, "eval_dataset": "rows.jsonl"}, "openai": own}
    yield Case(
        "environment from YAML",
        ["evaluate", "prompts", "--config=c.yaml"],
        {**files, "c.yaml": json.dumps(environment)},
    )
    for verb in ("audit", "attack"):
        words = [
            verb,
            "rows.jsonl",
            "--out=run",
            *_flags({"judge": "jury", **named, "judges": jury["judges"]}),
        ]
        yield Case(f"{verb} of a jury", words, files)
