"""Costs of calls: budgets, and list prices of common models."""
