"""HTML from templates: every value that is put in is escaped.

Names of the templates are those of the files in `templates/`, one for each kind of page.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = Path(__file__).parent / "templates"


def render(name: str, **values: object) -> str:
    """Render the template `name`, such as `report.html`; a value that it asks for and does not get is an error."""
    return _environment().get_template(name).render(**values)


@lru_cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # late: only what writes a page needs it

    return Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
