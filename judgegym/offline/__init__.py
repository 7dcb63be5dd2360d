"""OpenAI-compatible stand-in server: policy and judge without a key, a network or a GPU.

`StandIn` runs it as a child process; `python -m judgegym.offline` runs it by hand. Its responses
are a pure function of the request body, so that two runs of one configuration are identical. It
tests plumbing, not quality: its judge compares words.
"""

from judgegym.offline.process import StandIn, running_stand_ins

__all__ = ["StandIn", "running_stand_ins"]
