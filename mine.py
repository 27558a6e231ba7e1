# mine.py
from epsaudit import audit


def noisy_count(dataset, size, rng):  # many outputs a call; one for (dataset, rng)
    return len(dataset) + rng.laplace(scale=0.9, size=size)  # epsilon = 1 needs a scale of 1.0


if __name__ == "__main__":
    print(audit(noisy_count, pairs=[(["ann"], ["ann", "bob"])], epsilon=1.0, seed=1))
