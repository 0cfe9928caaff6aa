"""Ray tasks with retries and an actor that is restarted."""

import os

import ray

ray.init(num_cpus=2, include_dashboard=False)


@ray.remote(max_retries=2, retry_exceptions=True)
def part(number: int) -> int:
    marker = f"{os.environ['HOME']}/tried-{number}"
    if number == 3 and not os.path.exists(marker):  # noqa: PTH110
        open(marker, "w").close()
        raise ConnectionError("transient: connection reset by peer")
    print(f"part {number} done")
    return number


@ray.remote(max_restarts=1, max_task_retries=1)
class Counter:
    def add(self, number: int) -> int:
        marker = f"{os.environ['HOME']}/died"
        if number == 2 and not os.path.exists(marker):  # noqa: PTH110
            open(marker, "w").close()
            os._exit(1)
        return number + 1


print("sum", sum(ray.get([part.remote(n) for n in range(6)])))
counter = Counter.remote()
print("counter", [ray.get(counter.add.remote(n)) for n in range(4)])
ray.shutdown()
print("finished")
