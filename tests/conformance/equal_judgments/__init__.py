"""Judgments of two checkouts that must be equal, whatever the endpoint answers: prompts, calls, scores, explanations.

    python -m tests.conformance.equal_judgments make /tmp/before --checkout ../before
    python -m tests.conformance.equal_judgments make /tmp/after --checkout .
    python -m tests.conformance.equal_judgments compare /tmp/before /tmp/after

`make … --only rubric,jury` makes some of the kinds, or settings that `list` prints; `--rows 10`
takes half a minute. Each setting judges rows at random with the checkout's own package and
`judgegym score` (`settings.py`, `rows.py`). The endpoint is an HTTP server (`endpoint.py`) that
answers by seed, request and repetition: verdicts, and each way in which a judge fails
(`replies.py`, `verdicts.py`). Nothing depends on the order of arrival: a judge is sent one request
at a time, and equal requests are told apart by their number.

Of each task its samples are recorded, its calls (name, vote, parameters, answer, whether it had a
verdict) and all the requests that the endpoint has had (`collecting.py`). `compare` prints each
difference with setting, task and path, and ends with exit code 1 if there is one (`comparing.py`).
"""
