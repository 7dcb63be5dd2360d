"""A real model as policy and judge, without GPU, hub or key: `python -m examples.real_model`."""
