"""A real language model as policy and as judge without GPU, hub or key (`python -m examples.real_model`)."""
