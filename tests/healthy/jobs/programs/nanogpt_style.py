"""A loop that prints the lines of nanoGPT."""

import time

import torch
from torch import nn

torch.manual_seed(1)
print("tokens per iteration will be: 8,192")
print(
    "Initializing a new model from scratch\ndefaulting to vocab_size of GPT-2 to 50304 (50257 rounded up for efficiency)"
)
model = nn.Sequential(nn.Embedding(256, 32), nn.Linear(32, 256))
print(f"number of parameters: {sum(p.numel() for p in model.parameters()) / 1e6:.2f}M")
print("num decayed parameter tensors: 2, with 16,384 parameters\nusing fused AdamW: False")
optimizer = torch.optim.AdamW(model.parameters())
for iteration in range(101):
    begin = time.perf_counter()
    tokens = torch.randint(0, 256, (8, 64))
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if iteration % 20 == 0:
        print(f"step {iteration}: train loss {loss.item():.4f}, val loss {loss.item() + 0.01:.4f}")
        if iteration:
            print("saving checkpoint to out")
    print(f"iter {iteration}: loss {loss.item():.4f}, time {(time.perf_counter() - begin) * 1000:.2f}ms, mfu -100.00%")
