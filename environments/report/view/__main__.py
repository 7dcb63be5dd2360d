"""`python -m environments.view FOLDER`."""

import sys

from environments.view.command import main

sys.exit(main())
