"""`python -m judgegym.integrations.openenv ENVIRONMENT [--env.name=value …]`: serve an environment by arguments."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

import uvicorn

from judgegym.integrations.openenv.server import SESSIONS, serve
from judgegym.integrations.single_turn.source import EnvironmentSource
from judges.llm.errors import UserError


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the process is ended."""
    parser = ArgumentParser(
        prog="python -m judgegym.integrations.openenv",
        description="Serve an environment to OpenEnv's clients. Further arguments are settings of `judgegym serve`, "
        "such as --env.judge_model_name=NAME, --config=FILE or --offline.",
        allow_abbrev=False,
    )
    parser.add_argument("environment", help="a built-in name such as arena_hard, or path/to/file.py:Class")
    parser.add_argument("--split", choices=("train", "eval"), default="train")
    parser.add_argument("--sessions", type=int, default=SESSIONS, help="WebSocket sessions at once")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    known, settings = parser.parse_known_args(arguments)
    try:
        app = serve(EnvironmentSource(known.environment, tuple(settings), known.split), sessions=known.sessions)
    except UserError as error:
        print(error, file=sys.stderr)  # noqa: T201  # a command's message
        raise SystemExit(2) from None
    uvicorn.run(app, host=known.host, port=known.port)


if __name__ == "__main__":
    main()
