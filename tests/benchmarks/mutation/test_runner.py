"""What a scratch copy holds."""

from pathlib import Path

from benchmarks.mutation.runner import copy_tree


def test_a_copy_has_the_packages_and_not_what_was_made_beside_them(tmp_path: Path) -> None:
    kept = [
        "judgegym/a.py",
        "judgegym/engine/runs/directory.py",
        "tests/core/engine/runs/test_directory.py",
        "README.md",
    ]
    left_out = [
        "runs/a/samples.jsonl",
        ".venv/bin/python",
        "judgegym/__pycache__/a.pyc",
        "judgegym.egg-info/PKG-INFO",
    ]
    for name in [*kept, *left_out]:
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)

    copy_tree(tmp_path / "tree", tmp_path / "copy")

    copied = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    assert copied == set(kept)
