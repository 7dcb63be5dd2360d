"""How commands end whose input is wrong, or that are interrupted."""

from __future__ import annotations

import signal
from collections.abc import Callable

from judgegym.engine.terminal.output import warn
from judgegym.judges.config.broken_pipe import quiet_at_broken_pipe
from judgegym.judges.config.extras import missing_extra
from judgegym.judges.config.one_line_parser import BAD_INPUT
from judgegym.llm.errors import EndpointOutage, UserError


def exit_code(command: Callable[[], int]) -> int:
    """Run a command: 2 with a message if its input is wrong, 130 after Ctrl-C, 141 if the output pipe is closed.

    An endpoint's outage ends it with 2 if the endpoint was never there, and with 1 if it rejects every request.
    """
    try:
        return quiet_at_broken_pipe(command)
    except EndpointOutage as error:
        warn(str(error))
        return error.exit_code
    except UserError as error:
        warn(str(error))
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        warn(str(missing))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return BAD_INPUT
