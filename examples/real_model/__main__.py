"""The command line: `python -m examples.real_model [run|serve|configs]`."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.real_model import configs, model
from examples.real_model.everything import Output, run_everything
from examples.real_model.server import DEFAULT_PORT, ServerSettings, serve_here
from judgegym.judges.config.one_line_parser import OneLineParser, make_whole_number_type
from judgegym.llm.errors import JudgeGymError

_SETTINGS = ServerSettings()


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit code."""
    options = _parser().parse_args(words)
    if options.verb == "configs":
        configs.write_all()
        return 0
    settings = ServerSettings(
        options.port,
        options.slots,
        options.context,
        options.threads,
        own_template=options.own_template,
        cache=options.cache,
    )
    try:
        model.require_extra()
        if options.verb == "serve":
            return serve_here(settings, exit_with_parent=options.exit_with_parent)
        signal.signal(signal.SIGTERM, _interrupt)
        folder = options.out or Path("runs") / f"real_model--{time.strftime('%Y%m%d-%H%M%S')}"
        return run_everything(settings, Output(folder, options.page))
    except JudgeGymError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the server has ended", file=sys.stderr)
        return 130


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


class _Parser(OneLineParser):
    def __init__(self, prog: str, **_: Any) -> None:  # parsers of verbs get further arguments
        super().__init__(prog, "A real language model as policy and judge, on a CPU.")


def _parser() -> OneLineParser:
    parser = _Parser("python -m examples.real_model")
    verbs = parser.add_subparsers(dest="verb", required=True)
    everything = verbs.add_parser(
        "run",
        help="evaluate every environment, serve rollouts, and print the tables",
        description="evaluate every environment, serve rollouts, and print the tables",
    )
    everything.add_argument(
        "--out", type=Path, help="write runs and logs into this new folder; default runs/…"
    )
    everything.add_argument(
        "--page", type=Path, help="put the output into this page, between its marks, too"
    )
    serve = verbs.add_parser("serve", help="serve the model until Ctrl-C")
    serve.add_argument(
        "--exit_with_parent", action="store_true", help="end when standard input reaches its end"
    )
    for verb in (everything, serve):
        for flag, least, default, help_text in (
            ("--port", 0, DEFAULT_PORT, "listen on this port"),
            ("--slots", 1, _SETTINGS.slots, "work on so many requests at once"),
            ("--context", 1, _SETTINGS.context, "tokens of all slots together"),
            ("--threads", 1, _SETTINGS.threads, "compute with so many threads"),
        ):
            verb.add_argument(
                flag,
                type=make_whole_number_type(least),
                default=default,
                help=f"{help_text} (%(default)s)",
            )
        verb.add_argument(
            "--own_template",
            action="store_true",
            help="use the chat template in the model's file, not template.jinja",
        )
        verb.add_argument(
            "--cache",
            type=Path,
            help=f"keep the model's file here; default {model.default_cache()}",
        )
    verbs.add_parser(
        "configs",
        help="write the files of settings in configs/ anew",
        description="write the files of settings in configs/ anew",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
