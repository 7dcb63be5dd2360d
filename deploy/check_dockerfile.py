"""Run the steps of a Dockerfile in a clean root where no container engine is at hand, and check the server it makes.

    python deploy/check_dockerfile.py [deploy/Dockerfile]

Each stage is a folder that becomes the root (`unshare`, `chroot`) of its RUN steps, with this
machine's /usr in the place of the base image. COPY takes what git tracks. At the end the ENTRYPOINT
runs as USER, with `--offline`, `--insecure` and another port, until the HEALTHCHECK succeeds, and
SIGTERM ends it. What an engine would do and this does not is printed.
Exit codes: 0 all steps ran, 1 a step failed, 2 it cannot be tried here (no Linux, no namespaces).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
REPOSITORY = Path(__file__).resolve().parents[1]
_SYSTEM = ("bin", "lib", "lib64", "sbin")
_FROM_ETC = (
    "passwd",
    "group",
    "shadow",
    "gshadow",
    "login.defs",
    "resolv.conf",
    "hosts",
    "nsswitch.conf",
    "ssl",
    "pip.conf",
    "ld.so.cache",
    "alternatives",
)
_PASSED = re.compile(
    r"^(PIP_(?!FIND_LINKS)|SSL_|REQUESTS_|https?_proxy$|HTTPS?_PROXY$|no_proxy$|NO_PROXY$)"
)
_PATIENCE_S = 60.0
_PYTHON = sys.base_prefix


@dataclass
class Stage:
    """One stage: its root, and what its instructions set for those after them."""

    base: str
    root: Path
    env: dict[str, str] = field(default_factory=lambda: {"PATH": f"{sys.base_prefix}/bin:{_PATH}"})
    user: str = ""
    workdir: str = "/"
    seen: dict[str, str] = field(default_factory=dict)

    def command(self, words: list[str]) -> list[str]:
        """The words that run a command with this root; /usr cannot be written to."""
        user_namespace = [] if os.geteuid() == 0 else ["--map-root-user"]
        mounts = [
            "set -e",
            f"cd {shlex.quote(str(self.root))}",
            "mount --rbind /usr usr",
            "mount -o remount,bind,ro usr",
        ]
        mounts += [f"mount --rbind /{name} {name}" for name in ("proc", "dev")]
        mounts += [f"mount --rbind {_PYTHON} ./{_PYTHON}", f"mount -o remount,bind,ro ./{_PYTHON}"]
        changed = f"--userspec={self.user}:{self.user} " if self.user and os.geteuid() == 0 else ""
        env = {
            **{name: value for name, value in os.environ.items() if _PASSED.match(name)},
            "HOME": "/root",
            **self.env,
        }
        if self.user:
            env["HOME"] = self.workdir
        inner = f"cd {shlex.quote(self.workdir)} && exec {shlex.join(words)}"
        settings = shlex.join(f"{name}={value}" for name, value in env.items())
        enter = f"exec chroot {changed}. /usr/bin/env -i {settings} /bin/sh -c {shlex.quote(inner)}"
        return ["unshare", *user_namespace, "--mount", "/bin/sh", "-c", "\n".join([*mounts, enter])]

    def prepare(self) -> None:
        """Make the folders that stand for the base image."""
        for name in (
            "usr",
            "proc",
            "dev",
            "etc",
            "root",
            "opt",
            "home",
            "tmp",
            "var/tmp",
            "run",
            _PYTHON.lstrip("/"),
        ):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        (self.root / "tmp").chmod(0o1777)
        for name in _SYSTEM:
            if Path("/", name).is_symlink():
                (self.root / name).symlink_to(f"usr/{name}")
        for name in _FROM_ETC:
            source, target = Path("/etc", name), self.root / "etc" / name
            if source.is_dir():
                shutil.copytree(
                    source, target, symlinks=True, ignore=shutil.ignore_patterns("private")
                )
            elif source.exists() and os.access(source, os.R_OK):
                shutil.copy(source, target)


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile: name and rest."""
    text = re.sub(
        r"\\\n",
        " ",
        re.sub(r"^\s*#.*\n", "", dockerfile.read_text(encoding="utf-8"), flags=re.MULTILINE),
    )
    return [
        (name.upper(), rest.strip())
        for name, _, rest in (line.partition(" ") for line in text.splitlines())
        if name
    ]


def copy(stage: Stage, rest: str, stages: dict[str, Stage]) -> None:
    """COPY: from another stage, or what git tracks in the context."""
    words = shlex.split(rest)
    origin = (
        stages[words.pop(0).removeprefix("--from=")] if words[0].startswith("--from=") else None
    )
    *sources, last = words
    target = stage.root / last.lstrip("/")
    for source in sources:
        if origin is not None:
            shutil.copytree(
                origin.root / source.lstrip("/"), target, symlinks=True, dirs_exist_ok=True
            )
            continue
        tracked = subprocess.run(
            ["git", "ls-files", source], cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
        if not tracked.stdout.split():
            raise ValueError(f"COPY {source}: git tracks no such file")
        is_folder = (REPOSITORY / source).is_dir()
        for name in tracked.stdout.splitlines():
            placed = target / (Path(name).relative_to(source) if is_folder else Path(name).name)
            placed.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, placed)


def build(dockerfile: Path, folder: Path) -> Stage:
    """Run the steps of all stages; the last one is the image.

    Raises:
        subprocess.CalledProcessError: a RUN step failed.
        ValueError: an instruction is not known here, or copies what is not there.
    """
    stages: dict[str, Stage] = {}
    stage = Stage("", folder)
    for name, rest in instructions(dockerfile):
        print(f"{name} {rest}", flush=True)
        if name == "FROM":
            base, _, alias = rest.partition(" AS ")
            stage = stages[alias or str(len(stages))] = Stage(base, folder / f"stage{len(stages)}")
            stage.prepare()
        elif name == "COPY":
            copy(stage, rest, stages)
        elif name == "RUN":
            if os.geteuid() != 0 and rest.startswith("useradd "):
                print("    not run: without privileges a namespace has one user")
                continue
            subprocess.run(stage.command(["/bin/sh", "-c", rest]), check=True)
        elif name == "ENV":
            pairs = (
                word.replace("$PATH", stage.env["PATH"]).partition("=")
                for word in shlex.split(rest)
            )
            stage.env |= {key: value for key, _, value in pairs}
        elif name == "USER":
            stage.user = rest
        elif name == "WORKDIR":
            stage.workdir = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name in ("ENTRYPOINT", "CMD", "HEALTHCHECK", "EXPOSE", "STOPSIGNAL"):
            stage.seen[name] = rest
        else:
            raise ValueError(f"{name}: not known to this script")
    return stage


def serve(stage: Stage) -> None:
    """Start the server, run the health check until it succeeds, and end the server.

    Raises:
        RuntimeError: it is not healthy in time, or does not end as it should.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = [
        *json.loads(stage.seen["ENTRYPOINT"]),
        *json.loads(stage.seen.get("CMD", "[]")),
        "--offline",
        "--insecure",
    ]
    check = json.loads(stage.seen["HEALTHCHECK"].partition("CMD ")[2])
    server = subprocess.Popen(stage.command([word.replace("8400", port) for word in words]))
    try:
        until = time.monotonic() + _PATIENCE_S
        while subprocess.run(
            stage.command([word.replace("8400", port) for word in check]),
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode:
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the server does not become healthy")
            time.sleep(0.5)
        print(
            f"healthy, as user {stage.user if os.geteuid() == 0 else 'of the namespace'}, on port "
            f"{port}"
        )
        server.send_signal(getattr(signal, stage.seen.get("STOPSIGNAL", "SIGTERM")))
        if server.wait(_PATIENCE_S):
            raise RuntimeError(f"the server ended with code {server.returncode}")
    finally:
        if server.poll() is None:
            server.kill()


def main(argv: list[str]) -> int:
    """Check a Dockerfile."""
    dockerfile = Path(argv[0]) if argv else REPOSITORY / "deploy" / "Dockerfile"
    for engine in ("docker", "podman"):
        if (
            shutil.which(engine)
            and not subprocess.run([engine, "info"], capture_output=True, check=False).returncode
        ):
            print(f"{engine} is at hand: building with it")
            return subprocess.run(
                [engine, "build", "-f", str(dockerfile), str(REPOSITORY)], check=False
            ).returncode
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            [*Stage("", Path("/")).command(["true"])[:-2], "-c", "true"],
            capture_output=True,
            check=False,
        ).returncode
    ):
        print("no container engine is at hand, and no namespaces: the steps cannot be run here")
        return 2
    print("no container engine is at hand: the steps run in a clean root of this machine")
    with tempfile.TemporaryDirectory() as folder:
        try:
            stage = build(dockerfile, Path(folder))
            serve(stage)
        except (subprocess.CalledProcessError, RuntimeError, ValueError) as error:
            print(f"failed: {error}")
            return 1
    there = f"this machine's /usr and Python {sys.version.split()[0]}"
    print(f"not checked: the base image {stage.base} ({there} stood in for it), layers,")
    print(
        "    the engine's own limits and network, EXPOSE" + ("" if os.geteuid() == 0 else ", USER")
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
