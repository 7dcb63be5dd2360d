"""Items and heads with a hostile text in every field, whichever fields there are; each names its field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Made = TypeVar("Made")

ATTACK = (
    "</script></style></textarea></title></noscript></template>-->"
    "<script>window.ran = true; alert(1)</script>"
    '<img src="https://example.org/x.png" onerror="window.ran = true">'
    "<svg onload=window.ran=true></svg><iframe src=javascript:parent.ran=true></iframe>"
    "\" ' onfocus=window.ran=true autofocus x=` &lt; &#60; \\u003c \\x3c ${window.ran = true} {{ 7 * 7 }} {% raw %}"
    " [a](javascript:window.ran=true) ![b](https://example.org/y.png) <style>* { display: none }</style>"
    " \u202e\u2066\u200b\u200d\ufeff\u2028\u2029\x00\x08\x1b[31m\x7f\ud800\udfff \r\n🙂 e\u0301 漢 <!--<script> "
)
SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="parent.ran = true">'
    b'<script>parent.ran = true</script><image href="https://example.org/z.png"/></svg>'
)
_JSON_KEY = "a key of "


class _Json:
    """Stands for `JSON`, whose definition is a text that can be read only where its names are imported."""


def attacked(made: type[Made], path: str, **given: Any) -> Made:
    """A dataclass whose texts attack the page; `given` are the fields that must have a certain value."""
    types = get_type_hints(made, localns={"JSON": _Json})
    values = {
        field.name: given.get(field.name, _filled(types[field.name], f"{path}.{field.name}"))
        for field in fields(made)  # type: ignore[arg-type]
    }
    return made(**values)


def paths(value: object, path: str) -> Iterator[str]:
    """The paths of all texts in what `attacked` has made."""
    if isinstance(value, str):
        yield path
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from paths(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for item in value:
            yield from paths(item, path)
    elif isinstance(value, dict):
        yield f"{_JSON_KEY}{path}"
        yield path


def _filled(annotation: Any, path: str) -> Any:
    if annotation is _Json:
        return {f"{_JSON_KEY}{path};{ATTACK}": [f"{path};{ATTACK}", None, 1, {}]}
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return _filled(next(part for part in parts if part is not type(None)), path)
    if origin is Literal:
        return parts[0]
    if origin is tuple:
        return (0, 5)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return [_filled(parts[0], path)]
    if is_dataclass(annotation) and isinstance(annotation, type):
        return attacked(annotation, path)
    plain = {str: f"{path};{ATTACK}", bool: True, int: 3, float: 0.25, bytes: SVG}
    return plain[annotation]
