"""`python -m judgegym_trainers.openenv ENVIRONMENT`: serve an environment to OpenEnv's clients.

Further arguments are settings, such as `--env.NAME=VALUE`. Exit codes: 0, or 2 if an argument or a
setting is wrong or OpenEnv is not installed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from judgegym.judges.config.exit_code import BAD_INPUT
from judgegym.judges.config.one_line_parser import OneLineParser
from judgegym.llm.errors import UserError


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the process ends."""
    parser = OneLineParser(
        "python -m judgegym_trainers.openenv",
        "Serve an environment to OpenEnv's clients. Further arguments are settings of `judgegym "
        "serve`, such as --env.judge_model_name=NAME, --config=FILE or --offline.",
    )
    parser.add_argument(
        "environment", help="a built-in name such as arena_hard, or path/to/file.py:Class"
    )
    parser.add_argument("--split", choices=("train", "eval"), default="train")
    parser.add_argument("--sessions", type=int, help="WebSocket sessions at once (256)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options, settings = parser.parse_known_args(arguments)
    try:
        # Late: it says which extra is missing; uvicorn comes with that.
        from judgegym_trainers.openenv.server import SESSIONS, serve
        from judgegym_trainers.single_turn import EnvironmentSource

        source = EnvironmentSource(options.environment, tuple(settings), options.split)
        app = serve(source, sessions=options.sessions or SESSIONS)
    except UserError as error:
        print(error, file=sys.stderr)  # noqa: T201  # a command's message
        raise SystemExit(BAD_INPUT) from None
    import uvicorn  # late: it comes with OpenEnv

    uvicorn.run(app, host=options.host, port=options.port)


if __name__ == "__main__":
    main()
