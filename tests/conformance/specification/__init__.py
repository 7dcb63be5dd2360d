"""The specification's promises: scripts, flags, defaults, prompts, metrics, environment variables and Python names.

They hold whatever the house looks like inside. A change may add to these tests; it may not weaken one.
"""
