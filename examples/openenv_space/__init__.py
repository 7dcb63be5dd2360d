"""A JudgeGym environment for OpenEnv."""
