"""Process and thread pools, a subprocess that is terminated on purpose, resource warnings."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor


def square(value: int) -> int:
    if value % 9 == 4:
        print(f"worker {os.getpid() % 7}: value {value} is slow, timeout not reached", flush=True)
    return value * value


def flaky(value: int, tries: dict[int, int]) -> int:
    tries[value] = tries.get(value, 0) + 1
    if value % 5 == 0 and tries[value] == 1:
        raise ConnectionResetError("connection reset by peer")
    return value


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    with ProcessPoolExecutor(2) as pool:
        print("sum of squares", sum(pool.map(square, range(40))))
    tries: dict[int, int] = {}
    with ThreadPoolExecutor(4) as threads:
        for value in range(12):
            try:
                threads.submit(flaky, value, tries).result()
            except ConnectionResetError as error:
                print(f"task {value}: {error!r}, retrying")
                threads.submit(flaky, value, tries).result()
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    time.sleep(0.3)
    helper.terminate()
    print("helper stopped with", helper.wait(), signal.Signals(-helper.returncode).name)
    warnings.warn(
        "this backend is deprecated and will raise an error in a future release", DeprecationWarning, stacklevel=1
    )
    open(os.devnull)  # noqa: SIM115 - the ResourceWarning is what this program is about
    print("all tasks done, 0 failed")
