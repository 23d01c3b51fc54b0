"""Where a workload comes from: a Hugging Face config, torchvision, or a script of the user's."""
