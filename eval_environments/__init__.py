"""Benchmark environments."""
