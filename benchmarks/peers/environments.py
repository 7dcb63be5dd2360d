"""An environment for each subject below `.peers`, which is made once and used again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDER = CHECKOUT / ".peers"
_OF_THE_ENVIRONMENT = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils")


@dataclass(frozen=True, slots=True)
class Peer:
    """A subject.

    Attributes:
        name: of its environment, its script and its form at the endpoint.
        packages: what is installed for it.
    """

    name: str
    packages: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Its environment."""
        return FOLDER / self.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def script(self) -> Path:
        """What judges with it."""
        return Path(__file__).with_name("subjects") / f"{self.name}_judge.py"

    def install(self) -> None:
        """Make the environment, unless it is there.

        Raises:
            CalledProcessError: it cannot be made; what is there of it is removed.
        """
        if self.python.exists():
            return
        try:
            subprocess.run([sys.executable, "-m", "venv", self.folder], check=True)
            subprocess.run(
                [self.python, "-m", "pip", "install", "--quiet", *self.packages], check=True
            )
        except BaseException:  # also Ctrl-C: half an environment would be taken for a whole one
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @property
    def installed_mb(self) -> float:
        """The size of its `site-packages` in MB, without bytecode and what each environment has (pip, setuptools)."""
        (packages,) = self.folder.glob("lib/python*/site-packages")
        others = (
            path
            for path in packages.iterdir()
            if path.name.partition("-")[0] not in _OF_THE_ENVIRONMENT
        )
        files = (
            file for path in others for file in (path.rglob("*") if path.is_dir() else (path,))
        )
        return (
            sum(file.lstat().st_size for file in files if file.is_file() and file.suffix != ".pyc")
            / 1e6
        )


OURS = Peer("judgegym", (str(CHECKOUT),))
PEERS = (
    Peer("verifiers", ("verifiers",)),
    Peer("inspect_ai", ("inspect-ai", "openai")),
    Peer("openjudge", ("py-openjudge",)),
    Peer("autorubric", ("autorubric",)),
)
