"""Write to the terminal: messages, tables, progress. No other package does."""

from environments.terminal.all_metrics import show_all_metrics
from environments.terminal.log import log_to_terminal
from environments.terminal.output import LogFormatter, console, offline_notice, say, show_config, warn
from environments.terminal.progress import ProgressDisplay, ProgressState
from environments.terminal.summary import Summary, show_summary
from environments.terminal.table import Table, show_table

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
