"""A chain of array functions: each call runs on the CPU or on a GPU, wherever it is expected to end first."""

from concurrent.futures import as_completed

import numpy as np

import hybrid_scheduler as hs


@hs.auto
def step(x, w):
    xp = hs.array_namespace(x)  # NumPy's functions on the CPU, torch's on a GPU
    return xp.tanh(x @ w)


def main() -> None:
    generator = np.random.default_rng(0)
    x, w = (generator.normal(size=(500, 500)) / 20 for _ in range(2))
    with hs.HybridExecutor() as executor:
        result = executor.submit(step, x, w)
        for _ in range(9):
            result = executor.submit(step, result, w)  # a future as an argument: results stay on the device
        print(f"sum after ten steps: {result.result().sum():.6f}")
        print(executor.explain(result))
        halves = [executor.submit(step, half, w) for half in (x[:250], x[250:])]
        for number, ended in enumerate(as_completed(halves), 1):
            print(f"half {number} of 2 has the shape {ended.result().shape}")


if __name__ == "__main__":
    main()
