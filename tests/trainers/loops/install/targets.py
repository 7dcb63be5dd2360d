"""The trainers and evaluation frameworks that the tests run, each at the version that it is tested with.

`docs/trainers/index.md` has the same versions in its table, which a test compares with this one.
"""

from __future__ import annotations

from dataclasses import dataclass

TORCH = "torch==2.13.*"
"""The build for CPUs where one can be had: `environments.py` says from where."""
_MODULES = {"inspect": "inspect_ai", "ray": "ray_serve"}
"""Our modules that are not called as the environment of their target."""


@dataclass(frozen=True)
class Source:
    """A public repository, for what has no package of its own on the index.

    Attributes:
        url: what git clones.
        commit: the commit that is tested.
        day: the day of that commit, which stands for a version.
        projects: the folders in it that are installed, in editable form.
    """

    url: str
    commit: str
    day: str
    projects: tuple[str, ...] = ()


@dataclass(frozen=True)
class Target:
    """One environment.

    Attributes:
        name: its folder's name, and by default that of its tests in `tests/trainers/loops`.
        title: that of its section in `docs/trainers/index.md`.
        distribution: the package whose version is the target's; empty for one that is not
            installed.
        version: the version that is tested.
        imported: a module whose import shows that the package is usable.
        extra: the extra of JudgeGym with which the checkout is installed; empty for the core alone.
        pythons: the versions of Python that it runs with, the preferred one first.
        packages: further packages.
        bare: packages that are installed without what they depend on.
        overrides: requirements that replace those of packages.
        source: the repository that it comes from, instead of the index.
        has_environment: false for a checkout whose modules the tests load into their own Python.
        tests: the folder of its tests in `tests/trainers/loops`, where another version of the
            target has it, too.
        python: the version of Python as which its packages are chosen, where they require a patch
            release that not every machine has; an older one of `pythons` runs them then.
    """

    name: str
    title: str
    distribution: str
    version: str
    imported: str
    extra: str = ""
    pythons: tuple[str, ...] = ("3.11", "3.12", "3.13")
    packages: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    source: Source | None = None
    has_environment: bool = True
    tests: str = ""
    python: str = ""

    @property
    def folder(self) -> str:
        """The folder of its tests."""
        return self.tests or self.name

    @property
    def module(self) -> str:
        """Our module for it, in `judgegym_trainers`."""
        return _MODULES.get(self.folder, self.folder)

    @property
    def tested(self) -> str:
        """What the documents' table says of the version: of a checkout, the month of its commit."""
        return self.version.removesuffix(".*") if self.source is None else self.source.day[:7]


TARGETS = (
    Target(
        "art",
        "ART",
        "openpipe-art",
        "0.5.18",
        "art",
        extra="art",
        packages=(
            "openpipe-art==0.5.18",
            "numpy",
            "pyarrow",
        ),  # both for `Model.log`, which its core does not require
    ),
    Target(
        "inspect",
        "inspect_ai",
        "inspect-ai",
        "0.3.285",
        "inspect_ai",
        extra="inspect",
        packages=("inspect-ai==0.3.285", "openai"),
    ),
    Target(
        "nemo_gym",
        "NeMo Gym",
        "nemo-gym",
        "0.7.0",
        "nemo_gym",
        extra="nemo-gym",
        pythons=("3.13",),
        packages=("nemo-gym==0.7.0",),
        python="3.13.14",
    ),
    Target(
        "nemo_gym_04",
        "NeMo Gym",
        "nemo-gym",
        "0.4.0",
        "nemo_gym",
        extra="nemo-gym",
        pythons=("3.12", "3.13"),
        packages=("nemo-gym==0.4.0",),
        tests="nemo_gym",
    ),
    Target(
        "openenv",
        "OpenEnv",
        "openenv",
        "0.10.0",
        "openenv",
        extra="openenv",
        packages=("openenv==0.10.0",),
    ),
    Target(
        "openrlhf",
        "OpenRLHF",
        "openrlhf",
        "0.11.2",
        "openrlhf.utils.agent",
        extra="environments",
        packages=(TORCH, "transformers", "pylatexenc", "datasets"),
        bare=(
            "openrlhf==0.11.2",
        ),  # it depends on what needs a GPU; its executor of agents does not
    ),
    Target(
        "ray",
        "Ray Serve",
        "ray",
        "2.60.*",
        "ray.serve",
        extra="ray",
        packages=("ray[data,serve]==2.60.*",),
    ),
    Target(
        "rllm",
        "rllm",
        "rllm",
        "0.3.0.pre",
        "rllm",
        extra="environments",
        source=Source(
            "https://github.com/rllm-org/rllm",
            commit="9beb6e0f676a46d38858991fd79ac5f8e0b16d4c",
            day="2026-08-15",
            projects=("rllm-model-gateway", "."),
        ),
        # See tinker.
        overrides=("tml-renderers>=0.2",),
        packages=(TORCH,),
    ),
    Target(
        "skyrl_gym",
        "skyrl-gym",
        "skyrl-gym",
        "0.4.0",
        "skyrl_gym",
        extra="skyrl-gym",
        pythons=("3.12", "3.11", "3.13"),
        packages=("skyrl-gym==0.4.0",),
    ),
    Target(
        "slime",
        "slime",
        "",
        "",
        "",
        source=Source(
            "https://github.com/THUDM/slime",
            commit="624b824a898ab0ec1fcb4d373004c7f3852bf515",
            day="2026-08-21",
        ),
        has_environment=False,  # on the index this name is another project, and its own package needs a GPU
    ),
    Target(
        "tinker",
        "tinker-cookbook",
        "tinker-cookbook",
        "0.6.1",
        "tinker_cookbook.rl.types",
        extra="tinker",
        packages=("tinker==0.38.0", "tinker-cookbook==0.6.1", TORCH),
        # It requires tml-renderers>=0.4.1, which not every index has. Only its renderer of one
        # family of models calls that package, and what the tests use is there in 0.2.1, too; where
        # there is a newer one, that is installed.
        overrides=("tml-renderers>=0.2",),
    ),
    Target("trl", "TRL", "trl", "1.16.0", "trl", extra="trl", packages=(TORCH, "trl==1.16.0")),
    Target(
        "verifiers",
        "verifiers",
        "verifiers",
        "0.4.0",
        "verifiers.v1",
        extra="verifiers",
        packages=("verifiers==0.4.0",),
    ),
    Target(
        "verl",
        "verl",
        "verl",
        "0.9.1",
        "verl.experimental.reward_loop",
        extra="environments",
        pythons=("3.11", "3.12", "3.10"),
        packages=(
            TORCH,
            *(
                "tensordict",
                "omegaconf",
                "numpy",
                "pandas",
                "transformers",
                "datasets",
                "codetiming",
                "ray",
            ),
            *(
                "hydra-core",
                "cachetools",
                "fastapi",
                "uvicorn",
            ),  # its configuration and its agent loop
        ),
        bare=("verl==0.9.1",),  # as OpenRLHF
    ),
)
