"""Upper bounds on the privacy loss of a function on a pair, from how its noise must move to give the same output.

The theorem is in docs/explanation/theory.md, in the section on alignments. `epsaudit.tools.tracing.alignment.bound` is
the entry point. `tracked` has noisy numbers that remember their draws, `run` has one recorded or replayed run, `shifts`
the linear program, `sampled` the statistical bound, and `paths` and `certain` the bound without confidence.
`explanation` says why a run has no alignment within its claim. `recorded_pair` records the runs that a trace explains,
and `pair_explanation` says what they show.
"""
