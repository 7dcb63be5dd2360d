"""NeMo Gym: the reward server as a resources server, spawned by `gym` or reached over HTTP.

    python -m judgegym_trainers.nemo_gym          # puts resources_servers/judgegym into the current
    folder

`resources_server` has the class that NeMo Gym runs; only this module imports NeMo Gym. `__main__`
copies the server's folder to a place where `gym` looks for it: first the current folder, then the
one beside NeMo Gym. `gym env start` makes a virtual environment in it from `requirements.txt`. The
copy therefore requires the JudgeGym that wrote it: the same files, if it was installed from a
folder, or the same version.

Source: nemo-gym 0.4.0 and 0.7.0 (`cli/env.py`, `cli/setup_command.py`).
"""
