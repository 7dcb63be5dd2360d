"""An environment, a judge and a command that JudgeGym knows by their entry points."""
