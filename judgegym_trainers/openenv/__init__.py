"""OpenEnv: judges as its rubrics (`rubric`), environments as its servers (`server`), their client.

Source: openenv 0.10.0, November 2026: `Rubric`, `Environment`, `create_app`, `EnvClient`.
"""
