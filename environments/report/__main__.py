"""`python -m environments.report RUN`."""

from environments.report.command import main

raise SystemExit(main(prog="python -m environments.report"))
