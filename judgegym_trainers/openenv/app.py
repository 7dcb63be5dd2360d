"""The application of `server`'s environment variables, for `uvicorn`.

uvicorn judgegym_trainers.openenv.app:app
"""

from __future__ import annotations

import os

from judgegym_trainers.openenv.server import from_variables

app = from_variables(os.environ)
