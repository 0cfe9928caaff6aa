"""Hugging Face Trainer on a random tiny model."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

config = GPT2Config(vocab_size=128, n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config)
rows = [{"input_ids": t, "labels": t} for t in torch.randint(0, 128, (64, 16))]
arguments = TrainingArguments(
    "out", max_steps=40, per_device_train_batch_size=4, logging_steps=5, save_steps=20, eval_strategy="steps",
    eval_steps=20, report_to=[], use_cpu=True,
)  # fmt: skip
trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:16])
print(trainer.train())
print(trainer.evaluate())
