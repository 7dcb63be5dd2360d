"""Terminal output: messages, tables, progress. No other package writes to the terminal."""

from judgegym.engine.terminal.output import (
    Table,
    console,
    log_to_terminal,
    offline_notice,
    say,
    show_config,
    show_table,
    warn,
)
from judgegym.engine.terminal.progress import ProgressDisplay, ProgressState
from judgegym.engine.terminal.summary import Summary, show_all_metrics, show_summary

__all__ = [
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
