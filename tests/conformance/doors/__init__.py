"""A judge of one's own judges behind every door.

`judges.py` has the judges under test, the columns of the table; `commands.py`, `served.py` and
`in_python.py` have the doors, its rows. A further kind of judge is an entry in `JUDGES`: a name,
what writes it, and what its model replies.
"""
