# accelerate launch on two CPU processes, with its warning about missing settings.
# needs: accelerate
OMP_NUM_THREADS=1 "$PYBIN/accelerate" launch --cpu --num_processes 2 --main_process_port 29613 "$PROGRAMS/accelerate_train.py"
