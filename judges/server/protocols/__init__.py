"""The protocols in which trainers ask for rewards: each an adapter, from its body to items and back to its answer."""
