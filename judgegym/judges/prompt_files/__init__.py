"""Judges from prompt files.

A file has a text with placeholders, a scale, and the place of the verdict in a judge's reply.
"""
