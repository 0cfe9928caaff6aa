# The same with the library's own debug output: time-outs, watchdogs, sockets and stores in every line.
# needs: torch
export TORCH_CPP_LOG_LEVEL=INFO TORCH_DISTRIBUTED_DEBUG=INFO TORCH_SHOW_CPP_STACKTRACES=1 NCCL_DEBUG=INFO NCCL_ASYNC_ERROR_HANDLING=1 LOGLEVEL=INFO
"$PYBIN/torchrun" --nnodes 1 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:29611 --nproc-per-node 2 --max-restarts 2 "$PROGRAMS/torch_train.py" --steps 20 --ddp
