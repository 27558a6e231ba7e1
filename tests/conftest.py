"""Whoever starts the tests in the background of a script makes them deaf to Ctrl-C, which some of them send."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
