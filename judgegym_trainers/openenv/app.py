"""The application that the environment variables of `server` name: `uvicorn judgegym.integrations.openenv.app:app`."""

from __future__ import annotations

import os

from judgegym.integrations.openenv.server import from_variables

app = from_variables(os.environ)
