"""A model scores another's answer from 0 to 100; ranking of models that score each other."""
