"""A real training loop on the CPU, alone or data-parallel with gloo."""

import argparse
import os
import time
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--ddp", action="store_true")
parser.add_argument("--loader-workers", type=int, default=0)
parser.add_argument("--checkpoint-every", type=int, default=0)
parser.add_argument("--overflow-every", type=int, default=0)
parser.add_argument("--resume", action="store_true")
parser.add_argument("--leave-group-open", action="store_true")
parser.add_argument("--fail-first-life", action="store_true")


def main(args: argparse.Namespace) -> None:
    torch.manual_seed(0)
    rank, world = 0, 1
    if args.ddp:
        dist.init_process_group("gloo")
        rank, world = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world}: torch {torch.__version__}, cuda available: {torch.cuda.is_available()}", flush=True)
    if not torch.cuda.is_available() and rank == 0:
        warnings.warn("CUDA is not available; training on the CPU", stacklevel=1)
    model: nn.Module = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))
    if args.ddp:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    schedule.step()
    data = TensorDataset(torch.randn(4096, 64), torch.randn(4096, 1))
    loader = iter(DataLoader(data, 32, shuffle=True, num_workers=args.loader_workers))
    first = 0
    if args.resume and os.path.exists("checkpoint.pt"):  # noqa: PTH110
        saved = torch.load("checkpoint.pt")
        model.load_state_dict(saved["model"])
        first = saved["step"] + 1
        print(f"Resuming from checkpoint checkpoint.pt (step {saved['step']})")
    for step in range(first, args.steps):
        begin = time.perf_counter()
        try:
            inputs, targets = next(loader)
        except StopIteration:
            loader = iter(DataLoader(data, 32, shuffle=True))
            inputs, targets = next(loader)
        if args.fail_first_life and rank == 1 and step == 10 and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
            raise RuntimeError("transient failure of the first life")
        loss = nn.functional.mse_loss(model(inputs), targets)
        if args.overflow_every and step and step % args.overflow_every == 0:
            print(f"step {step}: OVERFLOW! Skipping step. Attempted loss scale: 65536, reducing to 32768")
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        time.sleep(0.01)
        seconds = time.perf_counter() - begin
        if rank == 0:
            print(
                f"step {step}/{args.steps} loss {loss.item():.4f} time {seconds:.4f}s lr {schedule.get_last_lr()[0]:.2e}"
            )
        if args.checkpoint_every and step and step % args.checkpoint_every == 0 and rank == 0:
            torch.save({"model": model.state_dict(), "step": step}, "checkpoint.pt")
            print(f"Saved checkpoint at step {step}", flush=True)
    if args.ddp:
        dist.barrier()
        if not args.leave_group_open:
            dist.destroy_process_group()
    if rank == 0:
        print("Training finished", flush=True)


if __name__ == "__main__":
    main(parser.parse_args())
