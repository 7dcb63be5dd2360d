"""The command `judgegym`: one entry to the environments, to finished runs and to the servers."""
