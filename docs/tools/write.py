"""Write the generated blocks of the pages: `python -m docs.tools.write`; `tests/docs` tells which page is stale.

A block stands between `<!-- generated: KIND WORDS -->` and `<!-- end -->`. Kinds: `settings`
(`settings_tables.py`), `code FILE NAMES` of `examples/` (`example_code.py`), `prompt TITLE`
(`prompts.py`), `fields NAME` (`file_fields.py`) and `lines NAME` (`line_fields.py`) of the files of
a run, `verdicts NAME` (`verdict_forms.py`) and `table NAME` (`tables.py`). So a page shows the same
in the repository and on the site.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from docs.tools.example_code import example_code
from docs.tools.file_fields import file_fields
from docs.tools.generated import BLOCK
from docs.tools.line_fields import line_fields
from docs.tools.prompts import prompt_block
from docs.tools.settings_tables import settings_table
from docs.tools.tables import code_table
from docs.tools.verdict_forms import verdict_forms

DOCS = Path(__file__).resolve().parents[1]
KINDS: Mapping[str, Callable[[str], str]] = {
    "settings": settings_table,
    "code": example_code,
    "prompt": prompt_block,
    "fields": file_fields,
    "verdicts": verdict_forms,
    "table": code_table,
    "lines": line_fields,
}


def render(markdown: str) -> str:
    """Return a page with its generated blocks as the code has them now.

    Raises:
        ValueError: a block has an unknown kind, or names that its kind does not know.
    """

    def block(match: re.Match[str]) -> str:
        try:
            text = KINDS[match["kind"]](match["words"])
        except KeyError as error:
            raise ValueError(
                f"no generated block has this name: {match['kind']} {match['words']}"
            ) from error
        return f"<!-- generated: {match['kind']} {match['words']} -->\n\n{text}\n\n<!-- end -->"

    return BLOCK.sub(block, markdown)


def main() -> None:
    """Write the pages that are stale."""
    for page in sorted(DOCS.rglob("*.md")):
        before = page.read_text(encoding="utf-8")
        after = render(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            sys.stdout.write(f"written: {page.relative_to(DOCS.parent)}\n")


if __name__ == "__main__":
    main()
