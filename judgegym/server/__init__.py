"""The reward server: all judges over HTTP, for any trainer."""
