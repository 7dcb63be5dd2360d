"""Write to the terminal: messages, tables, progress. No other package does."""

from environments.terminal.all_metrics import MetricDisplay, show_metrics
from environments.terminal.output import console, offline_notice, say, show_config, warn
from environments.terminal.progress import EvaluationProgress, ProgressDisplay
from environments.terminal.table import Table, show_table

__all__ = [
    "EvaluationProgress",
    "MetricDisplay",
    "ProgressDisplay",
    "Table",
    "console",
    "offline_notice",
    "say",
    "show_config",
    "show_metrics",
    "show_table",
    "warn",
]
