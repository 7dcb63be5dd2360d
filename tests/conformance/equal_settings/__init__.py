"""Settings of two checkouts that must be resolved alike: whom each command would ask, with which key, price and limit.

    python -m tests.conformance.equal_settings make /tmp/before --checkout ../before
    python -m tests.conformance.equal_settings make /tmp/after --checkout .
    python -m tests.conformance.equal_settings compare /tmp/before /tmp/after

The commands are the presets, those of the checkout's documents, and judges that inherit from others
(`cases.py`, `inheriting.py`). Each runs with the checkout's package and with variables that hold
`value-of-NAME`, and ends at its first request, before anything leaves the machine (`recorder.py`).
Written are the `ChatSettings` of each client that it has opened, its exit code and error, and what
`--show_config` prints; no class of settings is named.

`compare` prints each difference with case and path, and ends with exit code 1 if there is one.
`--without config` and `--without said` leave out what names flags.
"""
