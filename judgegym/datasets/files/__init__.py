"""Scored files: the input's columns unchanged, the judge's added; shards, merging, reading."""
