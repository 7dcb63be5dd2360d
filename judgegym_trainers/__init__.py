"""JudgeGym in other trainers and evaluation frameworks: one module per target, over one core.

Guarantees: importing a module loads the target's own package and nothing of another target; a
    failed judge becomes what the framework understands as "no reward", or, if it has no such
    notion, a flagged number. The table of all targets is in `docs/trainers/`.
"""
