"""Find the generated blocks of a page: from `<!-- generated: KIND WORDS -->` to `<!-- end -->`."""

from __future__ import annotations

import re

BLOCK = re.compile(
    r"^<!-- generated: (?P<kind>\w+) (?P<words>[^\n]+) -->\n.*?^<!-- end -->$",
    re.MULTILINE | re.DOTALL,
)


def blank_generated(markdown: str) -> str:
    """Return a page with empty lines in place of its generated blocks: what people wrote, with its line numbers."""
    return BLOCK.sub(lambda block: "\n" * block[0].count("\n"), markdown)
