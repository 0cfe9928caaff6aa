"""Generates large job logs: 64 ranks, step lines, NCCL INFO, start-up chatter, rare failures. Reproducible by seed.

python tests/bench/make_log.py PATH SIZE_MB [--ranks N] [--seed N]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

_HEADER = """JOB_ID=4711
JOB_NAME=JAX-llama2-70b-steps_100000
NNODES={ranks}
JOB_NODELIST=node[{first:03d}-{last:03d}]
JAX_COORDINATOR_PORT=27127
PASSTHROUGH_ARGS="steps=1000000 enable_checkpointing=true"
MODEL_NAME=llama2-70b
==STAGE TIMEOUTS (override: STAGE_TIMEOUTS="stage:seconds,...")==
  train        none
== Training BEGIN (no timeout) ==
"""
_STEP = (
    "{label}completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: {tflops:.3f}, MFU: 37.22%, "
    "Tokens/s/device: {tgs:.3f}, total_weights: 262144, loss: {loss:.3f}\n"
)
_NCCL = (
    "{label}node{rank:03d}:{pid}:{tid} [{gpu}] NCCL INFO Channel {channel:02d}/0 : {rank}[{gpu}] -> {peer}[{gpu}] [send] via NET/IB/{gpu}/GDRDMA\n",
    "{label}node{rank:03d}:{pid}:{tid} [{gpu}] NCCL INFO AllReduce: opCount {tid:x} sendbuff 0x7f2a{pid:x}0000 recvbuff 0x7f2b{tid:x}0000 count {pid} datatype 7 op 0 root 0 comm 0x55d0{pid:x} [nranks=512] stream 0x55d{tid:x}\n",
    "{label}node{rank:03d}:{pid}:{tid} [{gpu}] NCCL INFO comm 0x55d0{pid:x} rank {rank} nranks 512 cudaDev {gpu} busId {tid:x} - Init COMPLETE\n",
)
_CHATTER = (
    "{label}I1130 02:15:{second:02d}.894270 140460235328384 checkpointer.py:125] Saving step {step} to /outputs/x/checkpoints.\n",
    "{label}W1130 02:15:{second:02d}.100000 1403 slow_operation_alarm.cc:73] The operation took {pid}.{tid}s\n",
    "{label}2026-11-30 02:12:{second:02d}.003217: E external/xla/xla/stream_executor/cuda/cuda_platform.cc:51] failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)\n",
)
_RARE = (
    "{label}node{rank:03d}:66:66 [0] /workspace/rccl/src/init.cc:2095 NCCL WARN MSCCL++: Feature not enabled. ENABLE_MSCCLPP must be defined at compile-time\n",
    "{label}[2026-11-30 02:33:50,629 W 8 8] network_util.cc:330: Failed to determine local IP via external connectivity\n",
)
_END = """{label}node012:66:66 [3] NCCL WARN NET/IB : Got completion from peer 10.1.1.7<54862> with status=12 opcode=0 len=0 vendor err 129
{label}Traceback (most recent call last):
{label}  File "train.py", line 10, in <module>
{label}jaxlib.xla_extension.XlaRuntimeError: INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled system error
{label}NODE_EXIT host=node012 exit=1
srun: error: node012: task 12: Exited with exit code 1
== Training FAILED (exit=143, 3600s) ==
========================== JOB SUMMARY ==========================
  Job:    4711 (JAX-llama2-70b-steps_100000)
  Model:  llama2-70b
  Nodes:  {ranks}
  Wall:   1h 2m 3s
  Status: FAILED (exit 1) — Training FAILED (exit=143)
=================================================================
"""
#: Lines of NCCL INFO and chatter per step line: NCCL_DEBUG=INFO dominates logs of this size.
_NOISE_PER_STEP = 14


def blocks(ranks: int, seed: int) -> Iterator[bytes]:
    """One step of all ranks at a time, endless."""
    rng = random.Random(seed)
    width = len(str(ranks - 1))
    labels = [f"{r:>{width}}: " for r in range(ranks)]
    step = 0
    while True:
        lines: list[str] = []
        for rank in rng.sample(range(ranks), ranks):
            values = {
                "label": labels[rank], "rank": rank, "peer": (rank + 1) % ranks, "step": step,
                "pid": rng.randrange(1000, 99999), "tid": rng.randrange(1000, 99999), "gpu": rng.randrange(8),
                "channel": rng.randrange(32), "second": rng.randrange(60), "seconds": 3 + rng.random() / 50,
                "tflops": 465.5, "tgs": 10896.5 + rng.random(), "loss": 10.75,
            }  # fmt: skip
            lines.append(_STEP.format(**values))
            for _ in range(_NOISE_PER_STEP):
                lines.append(rng.choice(_NCCL).format(**values))
            if rng.random() < 0.02:
                lines.append(rng.choice(_CHATTER).format(**values))
            if rng.random() < 0.0005:
                lines.append(rng.choice(_RARE).format(**values))
        step += 1
        yield "".join(lines).encode()


def make(path: Path, size_bytes: int, ranks: int = 64, seed: int = 1) -> None:
    """Write a log of about ``size_bytes``. Blocks are repeated with other step numbers to keep generation quick."""
    width = len(str(ranks - 1))
    stock = []
    source = blocks(ranks, seed)
    for _ in range(40):
        stock.append(next(source))
    with path.open("wb") as file:
        file.write(_HEADER.format(ranks=ranks, first=0, last=ranks - 1).encode())
        written, step = file.tell(), 0
        while written < size_bytes:
            base = stock[step % len(stock)]
            block = base.replace(b"completed step: %d," % (step % len(stock)), b"completed step: %d," % step)
            written += file.write(block)
            step += 1
        file.write(_END.format(label=f"{12:>{width}}: ", ranks=ranks).encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("size_mb", type=int)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    make(args.path, args.size_mb << 20, args.ranks, args.seed)
