"""OpenEnv: our judges as its rubrics (`rubric`), our environments as its servers (`server`, `app`) and their client.

Source: openenv 0.10.0, November 2026: `Rubric`, `Environment`, `create_app`, `EnvClient`.
"""
