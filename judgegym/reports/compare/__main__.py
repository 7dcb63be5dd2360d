"""`python -m environments.report.compare`."""

from environments.report.compare.command import main

if __name__ == "__main__":
    raise SystemExit(main())
