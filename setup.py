"""The packages of the wheel: `judgegym`, and the plugins of verifiers, each of which is found as a top-level module.

All plugins have the same code, which asks for the classes of its own name.
"""

from setuptools import find_packages, setup

PLUGIN = "judgegym/integrations/verifiers_plugin"
JUDGES = (
    *("arena_hard", "aspect", "cascade", "checklist", "choice", "composite", "jury", "listwise", "peer"),
    *("reward_model", "rubric", "rule", "steps", "tournament"),
)
ENVIRONMENTS = (
    "arena_hard",
    "aspect_critique",
    "mt_bench",
    "pairwise_judgement",
    "prompts",
    "rubric_absolute",
    "rubric_checklist",
    "self_critique",
)
PLUGINS = sorted({f"judgegym_{name}" for name in (*JUDGES, *ENVIRONMENTS, "environment", "group")})

packages = find_packages(include=["judgegym", "judgegym.*"], exclude=["judgegym.integrations.verifiers_plugin"])
setup(packages=[*packages, *PLUGINS], package_dir=dict.fromkeys(PLUGINS, PLUGIN))
