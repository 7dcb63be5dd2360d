"""`python -m environments.report RUN`."""

from environments.report.run_page.command import main

raise SystemExit(main(prog="python -m environments.report"))
