"""Parsers of a judge's text.

Rules of all parsers: return a value or `None`; never guess, clamp or raise; read only the judge's
own text after its thinking. The last verdict wins. An object of the verdict's form at the end is a
verdict, unless words before it have another one (`judgegym.judges.parsing.candidates`). What is
returned was written in the text.
"""
