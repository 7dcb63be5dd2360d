"""NeMo Gym: a resources server that is the reward server, to be spawned by `gym env start` or reached over HTTP.

    python -m judgegym.integrations.nemo_gym          # puts resources_servers/judgegym into the current folder

`resources_server` has the class that NeMo Gym runs; it alone imports NeMo Gym. `folder` puts the server's folder where
`gym` looks for it.
"""
