"""NeMo Gym: a resources server that is the reward server, to be spawned by `gym env start` or reached over HTTP.

    python -m judgegym_trainers.nemo_gym          # puts resources_servers/judgegym into the current
    folder

`resources_server` has the class that NeMo Gym runs; it alone imports NeMo Gym. `__main__` copies
the server's folder to where `gym` looks for it: in the current folder first, then beside NeMo Gym.
`gym env start` makes a virtual environment in it from `requirements.txt`. The copy therefore
requires the JudgeGym that wrote it: the same files, where it was installed from a folder, or the
same version.

Source: nemo-gym 0.4.0 and 0.7.0 (`cli/env.py`, `cli/setup_command.py`).
"""
