"""Items and heads with a hostile text in every field, whichever fields there are; each names its field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ATTACK = (
    "</script></style></textarea></title></noscript></template>-->"
    "<script>window.ran = true; alert(1)</script>"
    '<img src="https://example.org/x.png" onerror="window.ran = true">'
    "<svg onload=window.ran=true></svg><iframe src=javascript:parent.ran=true></iframe>"
    "\" ' onfocus=window.ran=true autofocus x=` &lt; &#60; \\u003c \\x3c ${window.ran = true} {{ 7 "
    "* 7 }} {% raw %}"
    " [a](javascript:window.ran=true) ![b](https://example.org/y.png) <style>* { display: none "
    "}</style>"
    " \u202e\u2066\u200b\u200d\ufeff\u2028\u2029\x00\x08\x1b[31m\x7f\ud800\udfff \r\n🙂 e\u0301 漢 "
    "<!--<script> "
)
SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="parent.ran = true">'
    b'<script>parent.ran = true</script><image href="https://example.org/z.png"/></svg>'
)
_JSON_KEY = "a key of "
_JSON = ("detail.judgment", "detail.critique")


def attacked(value: Any, path: str) -> Any:
    """The same data with texts that attack the page; of values of any form the keys do, too."""
    if path in _JSON:
        return {f"{_JSON_KEY}{path};{ATTACK}": [f"{path};{ATTACK}", None, 1, {}]}
    if isinstance(value, str):
        return f"{path};{ATTACK}"
    if isinstance(value, bytes):
        return SVG
    if isinstance(value, dict):
        return {key: attacked(each, f"{path}.{key}") for key, each in value.items()}
    return [attacked(each, path) for each in value] if isinstance(value, list | tuple) else value


def paths(value: object, path: str) -> Iterator[str]:
    """The paths of all texts in what `attacked` has made."""
    if path in _JSON:
        yield from (f"{_JSON_KEY}{path}", path)
    elif isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from paths(each, f"{path}.{key}")
    elif isinstance(value, list):
        for each in value:
            yield from paths(each, path)
