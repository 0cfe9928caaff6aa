"""Lightning on the CPU."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(16, 1)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        del index
        loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        del index
        self.log("val_error", nn.functional.l1_loss(self.net(batch[0]), batch[1]), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


data = TensorDataset(torch.randn(512, 16), torch.randn(512, 1))
trainer = lightning.Trainer(
    max_epochs=3, accelerator="cpu", devices=1, default_root_dir="lightning", log_every_n_steps=5
)
trainer.fit(Model(), DataLoader(data, 32), DataLoader(data, 64))
trainer.validate(Model(), DataLoader(data, 64))
