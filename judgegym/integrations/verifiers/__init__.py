"""Plugins for verifiers (`import verifiers.v1`, 0.4 of November 2026): judges, tasksets and an Env for groups.

verifiers finds a plugin by the name of a top-level module: `plugins/` holds these modules, each with one class of a
kind that is made here. prime-rl takes the same ids.
"""

from judgegym.judges.config.extras import require

require("verifiers")
