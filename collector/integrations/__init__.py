"""Profsuite inside the training loops of others: Lightning, Hugging Face Transformers."""
