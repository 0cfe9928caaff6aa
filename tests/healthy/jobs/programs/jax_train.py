"""A real JAX training loop that prints MaxText's step lines."""

import argparse
import os
import time

import jax
import jax.numpy as jnp
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--processes", type=int, default=1)
parser.add_argument("--rank", type=int, default=0)
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--reshape-at", type=int, default=-1)
parser.add_argument("--sharded", action="store_true")
parser.add_argument("--checkpoints")
parser.add_argument("--checkpoint-every", type=int, default=10)


def loss_of(weights: dict[str, jax.Array], batch: jax.Array) -> jax.Array:
    hidden = jnp.tanh(batch @ weights["a"])
    return jnp.mean((hidden @ weights["b"] - 1.0) ** 2)


def main(args: argparse.Namespace) -> None:
    if args.processes > 1:
        jax.distributed.initialize(f"127.0.0.1:{args.port}", args.processes, args.rank)
    print(f"Config param steps: {args.steps}")
    print(f"Config param enable_checkpointing: {bool(args.checkpoints)}")
    print(f"Config param checkpoint_period: {args.checkpoint_every}")
    print("Config param jax_distributed_heartbeat_timeout_seconds: 100")
    print(
        f"System Information: Jax Version: {jax.__version__}, devices {jax.local_device_count()}/{jax.device_count()}"
    )
    keys = jax.random.split(jax.random.key(0), 2)
    weights = {"a": jax.random.normal(keys[0], (64, 128)) * 0.05, "b": jax.random.normal(keys[1], (128, 1)) * 0.05}
    update = jax.jit(
        lambda w, b: jax.tree.map(lambda x, g: x - 0.1 * g, w, jax.grad(loss_of)(w, b)), donate_argnums=(0, 1)
    )
    evaluate = jax.jit(loss_of)
    first, manager = 0, None
    if args.checkpoints:
        import orbax.checkpoint as ocp

        options = ocp.CheckpointManagerOptions(save_interval_steps=args.checkpoint_every, max_to_keep=3)
        manager = ocp.CheckpointManager(os.path.abspath(args.checkpoints), options=options)  # noqa: PTH100
        latest = manager.latest_step()
        if latest is None:
            print("No existing checkpoints found, not restoring checkpoint.")
        else:
            print(f"restoring from this run's directory step {latest}")
            weights = manager.restore(latest, args=ocp.args.StandardRestore(weights))
            first = latest + 1
    rng = np.random.default_rng(args.rank)
    for step in range(first, args.steps):
        begin = time.perf_counter()
        rows = 64 if step >= args.reshape_at > 0 else 32
        batch = jnp.asarray(rng.normal(size=(rows, 64)), jnp.float32)
        if args.sharded:
            mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
            batch = jax.device_put(batch, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data")))
        loss = float(evaluate(weights, batch))
        weights = update(weights, batch)
        jax.block_until_ready(weights)
        time.sleep(0.02)
        seconds = time.perf_counter() - begin
        print(
            f"completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: 0.001, "
            f"Tokens/s/device: {rows * 8 / seconds:.3f}, total_weights: {rows * 8}, loss: {loss:.3f}",
            flush=True,
        )
        if manager is not None and step % args.checkpoint_every == 0:
            manager.save(step, args=ocp.args.StandardSave(weights))
            print(f"Started an asynchronous checkpoint save for step {step}")
    if manager is not None:
        manager.wait_until_finished()
        manager.close()
    if args.processes > 1:
        jax.distributed.shutdown()


if __name__ == "__main__":
    main(parser.parse_args())
