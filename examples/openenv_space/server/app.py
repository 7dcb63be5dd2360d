"""The application of openenv.yaml; variables OPENENV_JUDGEGYM_… choose what it serves."""

import uvicorn

from judgegym_trainers.openenv.app import app

__all__ = ["app", "main"]


def main() -> None:
    uvicorn.run(app, host="0.0.0.0", port=8000)


if __name__ == "__main__":
    main()
