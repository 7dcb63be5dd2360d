"""The protocols that the server speaks."""

from __future__ import annotations

from typing import Any

from judges.server.protocols.base import Adapter
from judges.server.protocols.native import Native
from judges.server.protocols.nemo_gym import NemoGym
from judges.server.protocols.nemo_gym_compare import NemoGymCompare
from judges.server.protocols.openrlhf import OpenRLHF
from judges.server.protocols.slime import Slime

ADAPTERS: tuple[Adapter[Any], ...] = (Native(), OpenRLHF(), Slime(), NemoGym(), NemoGymCompare())
