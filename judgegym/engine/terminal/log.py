"""The log of a command on the terminal."""

from __future__ import annotations

import logging

from judgegym.engine.terminal.output import LogFormatter, console


def log_to_terminal(*, debug: bool = False) -> None:
    """Our own log, on standard error; others' from warnings on."""
    screen = console(stderr=True)
    if screen.is_terminal:
        from rich.logging import RichHandler

        handler: logging.Handler = RichHandler(console=screen, show_path=False, markup=False)
        logging.basicConfig(level=logging.WARNING, format="%(message)s", datefmt="[%X]", handlers=[handler], force=True)
    else:
        stream = logging.StreamHandler()
        stream.setFormatter(LogFormatter())
        logging.basicConfig(level=logging.WARNING, handlers=[stream], force=True)
    for name in ("huggingface_hub", "datasets", "transformers"):
        logging.getLogger(name).propagate = False  # they have handlers of their own, and each line would come twice
    logging.getLogger("judgegym").setLevel(logging.DEBUG if debug else logging.INFO)
