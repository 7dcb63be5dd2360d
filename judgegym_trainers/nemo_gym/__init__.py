"""NeMo Gym: the reward server as a resources server, spawned by `gym env start` or external.

    # puts resources_servers/judgegym into the current folder
    python -m judgegym_trainers.nemo_gym

`resources_server` has the class that NeMo Gym runs; only that module imports NeMo Gym. `__main__`
copies the server's folder to where `gym` looks for it: in the current folder first, then beside
NeMo Gym. `gym env start` makes a virtual environment in it from `requirements.txt`. The copy
therefore requires the JudgeGym that wrote it: the same files, if it was installed from a folder, or
the same version.

Source: nemo-gym 0.4.0 and 0.7.0 (`cli/env.py`, `cli/setup_command.py`).
"""
