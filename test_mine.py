# test_mine.py
def noisy_count(people, rng):
    return len(people) + rng.laplace(scale=0.8)  # the bug: epsilon = 1 needs scale 1.0


def test_count_is_private(privacy_audit):
    privacy_audit.check(noisy_count, epsilon=1.0, pairs=[(["ann"], ["ann", "bob"])])
