"""The example's folder as `openenv build` and `openenv push` copy it; the pushed one is served and validated.

Arguments: the folder, an empty folder. The environment variables name the environment and switch
    the web page on.
"""

import json
import os
import sys
from pathlib import Path

import httpx
from openenv.cli._validation import validate_running_environment
from openenv.cli.commands.build import _prepare_standalone_build
from openenv.cli.commands.push import (
    DEFAULT_PUSH_IGNORE_PATTERNS,
    _prepare_staging_directory,
    _validate_openenv_directory,
)

sys.path.insert(0, __file__.rpartition("/")[0])
from serving import serving

folder, place = Path(sys.argv[1]), Path(sys.argv[2])
built = _prepare_standalone_build(folder, place)
name, manifest = _validate_openenv_directory(folder)
pushed = place / "pushed"
_prepare_staging_directory(folder, name, pushed, DEFAULT_PUSH_IGNORE_PATTERNS)
files = {
    kind: sorted(path.name for path in at.iterdir())
    for kind, at in (("built", built), ("pushed", pushed))
}
os.chdir(pushed)
sys.path.insert(0, str(pushed))
from server.app import app, main  # noqa: E402  # as openenv.yaml names it

assert callable(main)
with serving(app) as url:
    report = validate_running_environment(url, timeout_s=60)
    page = httpx.get(f"{url}/web", follow_redirects=True, timeout=60)
dockerfile = (pushed / "Dockerfile").read_text()
said = {
    "name": name,
    "app": manifest["app"],
    "files": files,
    "page": page.status_code,
    "dockerfile": dockerfile,
}
print(
    json.dumps(
        {
            **said,
            "passed": report["passed"],
            "failed": [c for c in report["criteria"] if not c["passed"]],
        }
    )
)
