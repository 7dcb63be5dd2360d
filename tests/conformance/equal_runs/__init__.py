"""Runs of two checkouts that must have the same results: a change of the code is no change of any number.

Make the runs of each checkout in a folder, with that checkout's own `.venv/bin/judgegym`, and
compare the folders:

    git worktree add --detach ../before COMMIT && make -C ../before .venv/.installed-dev
    python -m tests.conformance.equal_runs make /tmp/before --checkout ../before
    python -m tests.conformance.equal_runs make /tmp/after --checkout .
    python -m tests.conformance.equal_runs compare /tmp/before /tmp/after

`make … --only 'score-*'` makes some of the runs, whose names `list` prints. `compare` prints each
difference with run, file, line and field, and ends with exit code 1 if there is one. It reads
`samples.jsonl`, `failures.jsonl`, `metrics.json`, the files of `score`, `select` and `process`, and
the recorded calls, without the field `run`, dates, seconds, latencies, versions and paths
(`comparing.py`). `--without NAME` leaves out a field that a change removes, wherever it stands.

A run is a line in `runs.py`. Where a command has got another name, a run gives the earlier
spelling, too: it is tried where the checkout refuses the first one.
"""
