# Keras on PyTorch: progress bars that rewrite their line, early stopping.
# needs: keras
KERAS_BACKEND=torch "$PY" "$PROGRAMS/keras_fit.py"
