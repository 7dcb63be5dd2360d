"""An environment and a command that JudgeGym knows by their entry points."""
