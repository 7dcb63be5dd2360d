"""`python -m environments.compare`."""

from environments.compare.command import main

if __name__ == "__main__":
    raise SystemExit(main())
