"""Environments and judges for tinker-cookbook: groups of rollouts, the rewards of whole groups, datasets for recipes.

`datasets.py` has what a recipe's train config takes. Source: tinker-cookbook 0.6.1, `tinker_cookbook.rl`.
"""

from judgegym.judges.config.extras import require

require("tinker")
