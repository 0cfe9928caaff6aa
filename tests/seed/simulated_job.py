"""A MaxText job of the launcher, written line by line on a simulated clock.

What a rank prints, and when, is the test's; the launcher's part (header, stages, container trace, labels, the end of a
step, the summary) follows from it, so that every number of the report is known beforehand. Ranks interleave as srun
interleaves them, and lines are cut at 1024 bytes and labelled again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

_START = 1_796_005_200.0
_SRUN_BYTES = 1024
_STAGES = {"preflight": "Preflight", "pull": "Docker pull", "ecc": "ECC check", "train": "Training"}
_PER_NODE = {
    "preflight": ("=== Pre-flight GPU cleanup ===", "No GPU processes found - GPUs are free", "{h} | disk free: 74G -> 74G (cleanup)"),
    "pull": ('PASSTHROUGH_ARGS=""', "[INFO] Execution mode: pull-only"),
    "ecc": ("{h}: OK (no ECC/UMC errors reported)",),
}  # fmt: skip
_CONTAINER = (
    "[INFO] Execution mode: script",
    "==STARTING DOCKER CONTAINER== (maxtext-slurm-{id}-node{r})",
    "+ trap _coredump_sigterm_handler TERM",
    "+ /artifact/_train.sh llama2-70b -- {args}",
    "Show all environment variables:",
    "NCCL_DEBUG=WARN",
    "XLA_PYTHON_CLIENT_MEM_FRACTION={fraction}",
)
_START_NOISE = (
    "E0000 00:00:1796005405.977720 23593 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR (303)",
    "{h}:683:683 [0] /workspace/rccl/src/init.cc:2095 NCCL WARN MSCCL++: Feature not enabled. ENABLE_MSCCLPP must be defined at compile-time",
)


def local_time(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment))


@dataclass
class SimulatedJob:
    """``period``: checkpoint period, None without checkpointing. ``first``: the first step, > 0 for a restored run.
    ``stamped``: step and configuration lines carry absl's clock, as newer MaxText prints them."""

    ranks: int = 2
    total: int = 400
    step_s: float = 12.0
    period: int | None = None
    save_s: float = 60.0
    first: int = 0
    ray: bool = False
    stamped: bool = False
    launcher: str = "slurm"
    train_limit_s: int | None = None
    fraction: str = ".93"
    first_words: str = ""
    """What the training processes print before anything else."""
    git_diff: str = ""
    job_id: str = "4711"
    started: float = _START
    seed: int = 0
    now: float = field(init=False)
    last: dict[int, int] = field(default_factory=dict)
    sum_s: dict[int, float] = field(default_factory=dict)
    saved: list[int] = field(default_factory=list)
    _lines: list[tuple[float, int, int | None, str]] = field(default_factory=list)
    _stage: tuple[str, float] = ("", 0.0)

    def __post_init__(self) -> None:
        self.now = self.started
        self._random = random.Random(self.seed)

    @property
    def hosts(self) -> list[str]:
        return [f"chi{2801 + rank}" for rank in range(self.ranks)]

    @property
    def args(self) -> str:
        saving = f" enable_checkpointing=true checkpoint_period={self.period}" if self.period else ""
        return f"steps={self.total}{saving}"

    # Output ------------------------------------------------------------------------------------------------------

    def say(self, text: str, rank: int | None = None, *, delay_s: float = 0.0) -> None:
        for line in text.split("\n"):
            self._lines.append((self.now + delay_s, len(self._lines), rank, line))

    def train_says(self, text: str, rank: int, *, delay_s: float = 0.0) -> None:
        """What the training process prints; Ray puts its actor's name before each line."""
        actor = f"\x1b[36m(MaxTextTrainerActor pid={600 + rank})\x1b[0m " if self.ray else ""
        self.say("\n".join(actor + line for line in text.split("\n")), rank, delay_s=delay_s)

    def all_say(self, texts: Sequence[str], *, training: bool = False) -> None:
        say: Callable[..., None] = self.train_says if training else self.say
        for rank, host in enumerate(self.hosts):
            delay_s = self._random.random() * 0.3
            for text in texts:
                filled = text.replace("{h}", host).replace("{r}", str(rank)).replace("{id}", self.job_id)
                say(filled, rank, delay_s=delay_s)

    def clock(self) -> str:
        """The present as glog and absl print it, to the second."""
        return time.strftime("%m%d %H:%M:%S", time.localtime(self.now))

    def _clocked(self, text: str) -> str:
        if not self.stamped:
            return text
        return f"I{self.clock()}.{int(self.now % 1 * 1e6):06d} 140231023348608 metric_logger.py:265] {text}"

    def text(self) -> str:
        width = len(str(self.ranks - 1))
        out = []
        for _, _, rank, line in sorted(self._lines, key=lambda entry: entry[:2]):
            if rank is None or self.launcher != "slurm":
                out.append(line)
                continue
            raw = line.encode()
            pieces = [raw[i : i + _SRUN_BYTES] for i in range(0, len(raw), _SRUN_BYTES)] or [b""]
            out.extend(f"{rank:>{width}}: {piece.decode(errors='surrogateescape')}" for piece in pieces)
        return "\n".join(out) + "\n"

    def record(self, state: str, exit_code: str, *, ended: bool = True, **more: Any) -> dict[str, Any]:
        """What accounting says."""
        times = {"start": local_time(self.started), **({"end": local_time(self.now)} if ended else {})}
        return {
            "job_id": self.job_id,
            "state": state,
            "exit_code": exit_code,
            "nodes": self._nodelist(),
            **times,
            **more,
        }

    def _nodelist(self) -> str:
        return self.hosts[0] if self.ranks == 1 else f"chi[2801-{2800 + self.ranks}]"

    # The launcher's part -----------------------------------------------------------------------------------------

    def header(self) -> None:
        ray = ["RAY_PORT=26148"] if self.ray else []
        self.say(
            "\n".join(
                [
                    f"JOB_ID={self.job_id}", "JOB_NAME=JAX-llama2-70b-x", f"NNODES={self.ranks}",
                    f"JOB_NODELIST={self._nodelist()}", "JAX_COORDINATOR_PORT=27127", *ray,
                    f'PASSTHROUGH_ARGS="{self.args}"', "MODEL_NAME=llama2-70b", "EXP_TAG=x",
                    "=== GIT SUMMARY BEGIN ===", "[LAST COMMIT]", "abc Fix OOM and heartbeat timeout", "[DIFF]",
                    self.git_diff, "=== GIT SUMMARY END ===",
                ]
            )
        )  # fmt: skip
        if self.launcher == "slurm":
            train = f"{self.train_limit_s}s" if self.train_limit_s else "none"
            self.say('==STAGE TIMEOUTS (override: STAGE_TIMEOUTS="stage:seconds,...")==')
            self.say(
                f"  preflight    900s\n  pull         900s\n  ecc          300s\n  train        {train}\n{'=' * 65}"
            )

    def begin(self, stage: str, limit_s: int | None = 900) -> None:
        self.say(f"== {_STAGES[stage]} BEGIN ({f'timeout={limit_s}s' if limit_s else 'no timeout'}) ==")
        self._stage = (stage, self.now)
        self.all_say(_PER_NODE.get(stage, ()))
        self.now += 1

    def _ended(self, how: str) -> None:
        self.say(f"== {_STAGES[self._stage[0]]} {how.format(s=int(self.now - self._stage[1]))} ==")

    def until(self, stage: str) -> None:
        """Header and all stages before this one, which begins."""
        self.header()
        if self.launcher != "slurm":
            return
        for name in _STAGES:
            self.begin(name, self.train_limit_s if name == "train" else 300 if name == "ecc" else 900)
            if name == stage:
                return
            self._ended("END ({s}s)")

    def boot(self) -> SimulatedJob:
        """Everything before the first step."""
        self.until("train")
        self.all_say([t.replace("{args}", self.args).replace("{fraction}", self.fraction) for t in _CONTAINER])
        self.now += 10
        self.all_say([self.first_words, *_START_NOISE], training=True)
        settings = {
            "async_checkpointing": False, "checkpoint_period": self.period or 10000,
            "enable_checkpointing": bool(self.period), "jax_distributed_heartbeat_timeout_seconds": 100,
            "per_device_batch_size": 8, "steps": self.total,
        }  # fmt: skip
        self.all_say([self._clocked(f"Config param {k}: {v}") for k, v in settings.items()], training=True)
        self.now += 30
        restored = f"restoring from this run's directory step {self.first - 1}"
        self.all_say(
            [
                restored if self.first else "No existing checkpoints found, not restoring checkpoint.",
                "====== BARRIER: Synchronizing hosts before training loop ======",
                "====== BARRIER PASSED: Starting training loop ======",
            ],
            training=True,
        )
        return self

    def steps(
        self, begin: int, end: int, seconds: Callable[[int], float] | None = None, ranks: Iterable[int] | None = None
    ) -> None:
        """Steps ``begin`` to ``end - 1``: the first one compiles, the one after a save waits for it."""
        chosen = list(range(self.ranks)) if ranks is None else list(ranks)
        for number in range(begin, end):
            took = 90.0 if number == self.first else self.step_s if seconds is None else seconds(number)
            if self.period and number - 1 in self.saved:
                took += self.save_s
            self.now += took
            for rank in chosen:
                own = round(took * (1 + self._random.gauss(0, 0.003)), 3)
                line = f"completed step: {number}, seconds: {own:.3f}, TFLOP/s/device: {13990 / own:.3f}, Tokens/s/device: {32768 / own:.3f}, total_weights: 262144, loss: {10.9 - number / 1000:.3f}"
                self.train_says(self._clocked(line), rank, delay_s=self._random.random() * min(0.4, took / 4))
                self.last[rank] = number
                self.sum_s[rank] = self.sum_s.get(rank, 0.0) + own
            if self.period and number and number % self.period == 0:
                self.saved.append(number)
                for rank in chosen:
                    self.train_says(f"Saved a checkpoint at step {number}.", rank, delay_s=0.5)

    # Ends --------------------------------------------------------------------------------------------------------

    def exit_of(self, rank: int, code: int) -> None:
        self.say(f"NODE_EXIT host={self.hosts[rank]} exit={code}", rank)
        self.say(f"srun: error: {self.hosts[rank]}: task {rank}: Exited with exit code {code}", delay_s=0.01)

    def fails(self, rank: int, code: int, *, also: Iterable[int] = (), victims: int = 143) -> None:
        """A rank (and others by themselves) ends with a code; kill-on-bad-exit stops the rest; the job fails."""
        self.now += 1
        if self.launcher != "slurm":
            self.say(f"+ _train_rc={code}", rank)
            self.summary(code)
            return
        dead = [rank, *also]
        for one in dead:
            self.say(f"+ _train_rc={code}\n+ exit {code}", one)
            self.exit_of(one, code)
        rest = [r for r in range(self.ranks) if r not in dead]
        if rest:
            self.say(f"srun: launch/slurm: _step_signal: Terminating StepId={self.job_id}.3")
            self._cancelled("STEP", "")
            self.now += 2
        for other in rest:
            self.exit_of(other, victims)
        worst = max([code, *([victims] if rest else [])])
        self._ended(f"FAILED (exit={worst}, {{s}}s)")
        self.summary(1, f"{_STAGES[self._stage[0]]} FAILED (exit={worst})")

    def finishes(self) -> None:
        self.now += 4
        if self.launcher == "slurm":
            self._ended("END ({s}s)")
        self.summary(0)

    def times_out(self, limit_s: int) -> None:
        self._cancelled("STEP", "")
        self.now += 1
        for rank, host in enumerate(self.hosts):
            self.say(f"srun: error: {host}: task {rank}: Killed")
        elapsed = int(self.now - self._stage[1])
        self._ended(f"TIMEOUT ({{s}}s/{limit_s}s)")
        self.summary(1, f"{_STAGES[self._stage[0]]} TIMEOUT ({elapsed}s/{limit_s}s)")

    def is_cancelled(self, due_to: str = "", *, code: int = 143, hours_ahead: float = 0.0) -> None:
        """Slurm stops the job. ``hours_ahead``: the host's clock, which Slurm's lines show, against the container's."""
        for kind in ("JOB", "STEP"):
            self._cancelled(kind, due_to, hours_ahead)
        self.now += 2
        for rank in range(self.ranks):
            self.exit_of(rank, code)
        self.summary(143, "CANCELLED (scancel / SIGTERM)")

    def _cancelled(self, kind: str, due_to: str, hours_ahead: float = 0.0) -> None:
        due = f" DUE TO {due_to}" if due_to else ""
        at = local_time(self.now + 3600 * hours_ahead)
        target = self.job_id if kind == "JOB" else f"{self.job_id}.3"
        line = f"slurmstepd-{self.hosts[0]}: error: *** {kind} {target} ON {self.hosts[0]} CANCELLED AT {at}{due} ***"
        self.say(line, None if kind == "JOB" else 0)

    def summary(self, code: int, reason: str | None = None) -> None:
        wall = int(self.now - self.started)
        told = f" — {reason}" if reason and self.launcher == "slurm" else ""
        status = f"\x1b[32mSUCCESS (exit {code})" if code == 0 else f"\x1b[31mFAILED (exit {code}){told}"
        self.say(
            f"{'=' * 26} JOB SUMMARY {'=' * 26}\n  Job:    {self.job_id} (JAX-llama2-70b-x)\n  Model:  llama2-70b\n"
            f"  Nodes:  {self.ranks}\n  Wall:   {wall // 3600}h {wall % 3600 // 60}m {wall % 60}s\n"
            f"  Status: {status}\x1b(B\x1b[m\n{'=' * 65}"
        )
