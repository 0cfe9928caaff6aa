"""Ray actors that print step lines."""

import time

import ray

ray.init(num_cpus=2, include_dashboard=False)


@ray.remote
class Trainer:
    def train(self, steps: int) -> float:
        loss = 9.0
        for step in range(steps):
            time.sleep(0.02)
            loss *= 0.95
            print(
                f"completed step: {step}, seconds: 0.021, TFLOP/s/device: 0.001, Tokens/s/device: 1490.000, "
                f"total_weights: 512, loss: {loss:.3f}",
                flush=True,
            )
        return loss


print("Config param steps: 40")
actors = [Trainer.remote() for _ in range(2)]
print("final losses", ray.get([a.train.remote(40) for a in actors]))
for actor in actors:
    ray.kill(actor)
time.sleep(1)
ray.shutdown()
