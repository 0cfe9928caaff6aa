"""Catches exceptions, logs their tracebacks and goes on."""

import logging
import sys
import traceback

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="[%(asctime)s] %(levelname)s %(message)s")


def load(name: str) -> dict[str, int]:
    if name.endswith("7"):
        raise FileNotFoundError(2, "No such file or directory", name)
    return {"size": len(name)}


for number in range(1, 31):
    try:
        load(f"shard-{number}")
    except OSError:
        logging.exception("shard %d is missing and is left out", number)
    else:
        logging.info("shard %d loaded", number)
try:
    import no_such_accelerator_library  # noqa: F401
except ImportError:
    traceback.print_exc()
    print("optional library missing, using the plain implementation")
for epoch in range(1, 21):
    print(f"epoch {epoch}/20 loss {1 / epoch:.4f}")
print("finished, result written")
