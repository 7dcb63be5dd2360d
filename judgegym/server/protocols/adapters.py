"""The protocols that the server speaks."""

from __future__ import annotations

from typing import Any

from judgegym.server.protocols.base import Adapter
from judgegym.server.protocols.native import Native
from judgegym.server.protocols.nemo_gym import NemoGym, NemoGymCompare
from judgegym.server.protocols.openrlhf import OpenRLHF
from judgegym.server.protocols.slime import Slime

ADAPTERS: tuple[Adapter[Any], ...] = (Native(), OpenRLHF(), Slime(), NemoGym(), NemoGymCompare())
