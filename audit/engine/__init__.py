"""What every audit runs on: streams of random numbers, chunks of runs, workers that do them, and the checkpoint.

`epsaudit.engine.sampling` draws with it; the fixed, the sequential and the one-run audit are orders of its stages.
"""
