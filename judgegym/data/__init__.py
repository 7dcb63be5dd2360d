"""Datasets: rows from files and the hub, and the tasks of each environment."""
