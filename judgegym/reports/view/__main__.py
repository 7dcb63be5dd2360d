"""`python -m environments.report.view FOLDER`."""

import sys

from environments.report.view.command import main

sys.exit(main())
