"""Programs that run inside the libraries' environments, by their own Pythons; see `serving` for what they share.

Nothing here is imported by the harness, and nothing here imports it: these files must run on Python 3.8 without it.
"""
