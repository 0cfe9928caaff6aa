"""accelerate on two CPU processes."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
model = nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(640, 16), torch.randn(640, 1)), 16)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for step, (inputs, targets) in enumerate(loader, 1):
    loss = nn.functional.mse_loss(model(inputs), targets)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.print(f"step {step}/{len(loader)} loss {loss.item():.4f}")
accelerator.wait_for_everyone()
accelerator.print("Training complete")
accelerator.end_training()
