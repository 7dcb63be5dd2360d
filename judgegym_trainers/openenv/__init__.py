"""OpenEnv: judges as rubrics (`rubric`), environments as servers (`server`, `app`), and a client.

Source: openenv 0.10.0, November 2026: `Rubric`, `Environment`, `create_app`, `EnvClient`.
"""
