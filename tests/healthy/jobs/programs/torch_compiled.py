"""torch.compile with graph breaks and recompilations."""

import torch


def step(values: torch.Tensor, scale: float) -> torch.Tensor:
    result = torch.relu(values) * scale
    if result.sum() > 0:
        print("positive")
    return result + 1


compiled = torch.compile(step, dynamic=False)
for size in (8, 8, 16, 32):
    print(size, compiled(torch.randn(size), 2.0).shape)
print("done, no errors")
