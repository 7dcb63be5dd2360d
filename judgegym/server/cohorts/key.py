"""Which responses belong together."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import orjson

from judgegym.judges.scorers.items import Item


def cohort_key(mount: str, item: Item) -> str:
    """A digest, the same for the members of a group: judge, client, the group's id if it has one, all but the response.

    Two epochs of a prompt without a group id have the same key; `LocalCohorts` tells them apart.
    """
    shared = replace(item, responses=()).key(mount)
    return hashlib.sha256(orjson.dumps([shared, item.client, item.group])).hexdigest()
