"""The packages of the wheel: the core, the two beside it, and the plugins of verifiers, found as top-level modules.

All plugins have the same code, which asks for the classes of its own name.
"""

from setuptools import find_packages, setup

PLUGIN = "judgegym_trainers/verifiers_plugin"
JUDGES = (
    *(
        "arena_hard",
        "aspect",
        "cascade",
        "checklist",
        "choice",
        "composite",
        "jury",
        "listwise",
        "peer",
    ),
    *("prompt", "reward_model", "rubric", "rule", "steps", "tournament"),
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

PACKAGES = ("judgegym", "judgegym_trainers", "judgegym_trials")

packages = find_packages(
    include=[pattern for name in PACKAGES for pattern in (name, f"{name}.*")],
    exclude=["judgegym_trainers.verifiers_plugin"],
)
setup(packages=[*packages, *PLUGINS], package_dir=dict.fromkeys(PLUGINS, PLUGIN))
