"""`python -m judgegym.reports RUN`."""

from judgegym.reports.run_page.command import main

raise SystemExit(main(prog="python -m judgegym.reports"))
