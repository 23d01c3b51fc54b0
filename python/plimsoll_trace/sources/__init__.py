"""Where a workload comes from: a Hugging Face config, torchvision, a script, or a module of a process that is alive."""
