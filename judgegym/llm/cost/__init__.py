"""What calls cost: budgets, and list prices of common models."""
