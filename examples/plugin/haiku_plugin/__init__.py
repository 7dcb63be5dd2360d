"""An environment, a judge and a command that JudgeGym finds by their entry points."""
