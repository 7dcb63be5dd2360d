"""Datasets: rows from files and the hub, and the row types of each environment."""
