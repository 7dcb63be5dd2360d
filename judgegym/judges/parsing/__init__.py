"""Parsers of a judge's text.

Rules of all parsers: return a value or `None`; never guess, clamp or raise; read only the judge's
own text after its thinking; the last verdict wins; an object of the verdict's form at the end is
one, unless words before it have another verdict (`judgegym.judges.parsing.candidates`); what is
returned was written in the text.
"""
