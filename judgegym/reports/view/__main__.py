"""`python -m judgegym.reports.view FOLDER`."""

import sys

from judgegym.reports.view.command import main

sys.exit(main())
