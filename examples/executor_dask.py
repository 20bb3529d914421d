"""A Dask program on the executor: unchanged on the CPU's cores, and with a device chosen for each task."""

import dask
import dask.array as da
import numpy as np

import hybrid_scheduler as hs


@hs.auto
def step(x, w):
    xp = hs.array_namespace(x)
    return xp.tanh(x @ w)


def main() -> None:
    generator = np.random.default_rng(0)
    x, w = (generator.normal(size=(400, 400)) / 20 for _ in range(2))
    with hs.HybridExecutor() as executor:
        blocks = da.from_array(x, chunks=100)
        with dask.config.set(scheduler=executor):  # any Dask program; its tasks run on the cores
            print(f"mean of x @ x.T: {(blocks @ blocks.T).mean().compute():.6f}")

        chain = dask.delayed(step)(x, w)
        for _ in range(4):
            chain = dask.delayed(step)(chain, w)
        with dask.config.set(scheduler=executor.dask_get):  # `step` may also run on a GPU
            print(f"sum after five steps: {chain.sum().compute():.6f}")
        for record in executor.records:
            print(f"{record.function.rpartition('.')[2]} ran on {record.device}")


if __name__ == "__main__":
    main()
