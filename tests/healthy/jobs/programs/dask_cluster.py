"""A small Dask computation with one flaky task."""

import logging
import os

import dask
from dask import delayed

logging.basicConfig(level=logging.INFO)
tries = {"n": 0}


@delayed
def part(number: int) -> int:
    if number == 3 and not os.path.exists("flaky"):  # noqa: PTH110
        open("flaky", "w").close()
        print("part 3: transient error, the scheduler will retry", flush=True)
    return number * number


if __name__ == "__main__":
    total = delayed(sum)([part(n) for n in range(20)])
    print("threads:", total.compute(scheduler="threads", num_workers=2))
    print("processes:", total.compute(scheduler="processes", num_workers=2))
    print(dask.config.get("distributed.comm.timeouts.connect", "no distributed scheduler, no timeouts"))
