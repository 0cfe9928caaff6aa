# Hugging Face Trainer on a random tiny model: evaluation, checkpoints, progress bar.
# needs: transformers
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=true
"$PY" "$PROGRAMS/hf_trainer.py"
