"""`python -m judgegym.reports.compare`."""

from judgegym.reports.compare.command import main

if __name__ == "__main__":
    raise SystemExit(main())
