"""Print the folder for verl's `--config-dir`, which holds `judgegym=deployed_judge`."""

from pathlib import Path

if __name__ == "__main__":
    print(Path(__file__).parent / "config")  # noqa: T201
