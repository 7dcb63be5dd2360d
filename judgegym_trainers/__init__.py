"""JudgeGym in other trainers and evaluation frameworks: one module a target, over the same core.

Guarantees: importing a module loads the target's own package and nothing of another target; a
judge's failure is what that framework understands as "no reward", and where it understands nothing
of the kind, a flagged number. The table of all targets is in `docs/trainers/`.
"""
