"""A plugin of verifiers, installed as a top-level module under each of the names in `setup.py`."""

from judgegym_trainers.verifiers import plugin

globals().update(_CLASSES := plugin(__name__))
__all__ = [*_CLASSES]
