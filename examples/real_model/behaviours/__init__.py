"""Probes of the endpoint's behaviour: each line of the table is a response of the endpoint."""

from __future__ import annotations

from collections.abc import Iterator

from examples.real_model.behaviours import forms, limits, sampling, tokens
from examples.real_model.behaviours.behaviour import Behaviour
from examples.real_model.server import RunningServer

__all__ = ["Behaviour", "measure"]


def measure(running: RunningServer) -> Iterator[Behaviour]:
    """Probe one behaviour after the other."""
    for room in (tokens, sampling, forms, limits):
        for probe in room.PROBES:
            yield probe(running)
