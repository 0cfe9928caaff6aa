"""Logs the words of failure in harmless senses, as pipelines do."""

import logging
import random
import sys
import time

logging.basicConfig(stream=sys.stdout, level=logging.DEBUG, format="%(asctime)s %(levelname)-8s %(name)s: %(message)s")
log = logging.getLogger("pipeline")
rng = random.Random(1)

log.info("config: timeout=3600 max_errors=10 kill_on_failure=false on_oom=skip heartbeat_timeout_seconds=100")
log.info("error handling: abort on the first fatal error; SIGTERM and SIGKILL are handled by the supervisor")
log.debug("looking for NCCL: not found; CUDA: not found; falling back to CPU")
for batch in range(1, 13):
    errors = rng.randint(0, 2)
    log.info("batch %d: 128 records, %d errors, error rate %.3f, 0 failed", batch, errors, errors / 128)
    if batch % 4 == 0:
        log.warning("request timed out after 0.1 s (attempt 1 of 3), retrying")
        log.info("request succeeded on attempt 2; connection reset by peer is expected behind the proxy")
    if batch % 5 == 0:
        log.error("record 17 rejected: invalid value NaN for field 'cancelled'; continuing with the next record")
    if batch == 6:
        log.warning("worker 3 was killed by the autoscaler and replaced; nothing is lost")
        log.warning("out of memory budget for the cache: evicting 12 entries (limit 64 MB)")
        log.warning("disk usage at 81%; no space left on the fast tier, using the slow tier")
    time.sleep(0.01)
log.info("cells killed: 14, died: 3, aborted divisions: 0 (simulation of a tissue)")
log.info("mean absolute error 0.0123, root mean squared error 0.0456, validation error improved")
log.info("no errors found; 0 errors, 0 failures, 2 warnings; exit code 0")
