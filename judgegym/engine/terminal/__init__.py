"""Write to the terminal: messages, tables, progress. No other package does."""

from judgegym.engine.terminal.all_metrics import show_all_metrics
from judgegym.engine.terminal.log import log_to_terminal
from judgegym.engine.terminal.output import LogFormatter, console, offline_notice, say, show_config, warn
from judgegym.engine.terminal.progress import ProgressDisplay, ProgressState
from judgegym.engine.terminal.summary import Summary, show_summary
from judgegym.engine.terminal.table import Table, show_table

__all__ = [
    "LogFormatter",
    "ProgressDisplay",
    "ProgressState",
    "Summary",
    "Table",
    "console",
    "log_to_terminal",
    "offline_notice",
    "say",
    "show_all_metrics",
    "show_config",
    "show_summary",
    "show_table",
    "warn",
]
