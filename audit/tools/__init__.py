"""Tools built on the core: hunts, traces, audits of training, the pytest plugin, the command line and reports."""
