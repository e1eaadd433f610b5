"""Every parser against text that nobody means: it returns, or it raises a TorchmarkError."""
