"""What debug settings of the environment cost on a GPU, as a table.

Each row is a process of its own that trains with one setting; its steps a second stand beside
those of the same program without any setting, which is run again with every model.

    python bench/gpu/debug_environment.py [--steps 30]
"""

import argparse
import json
import os
import subprocess
import sys
import time

SETTINGS = (
    {},
    {"CUDA_LAUNCH_BLOCKING": "1"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    {"TORCH_SHOW_CPP_STACKTRACES": "1"},
    {"NVIDIA_TF32_OVERRIDE": "0"},
    {"CUDA_LAUNCH_BLOCKING": "1", "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
)
MODELS = ("mlp", "gpt2", "resnet50")


def build(name):
    """A model, and a function that makes its loss."""
    import torch

    device = "cuda"
    if name == "mlp":
        # Many small kernels, as in reinforcement learning.
        layers = [torch.nn.Linear(256, 256) for _ in range(24)]
        model = torch.nn.Sequential(*(x for layer in layers for x in (layer, torch.nn.GELU())))
        data = torch.randn(64, 256, device=device)
        model.to(device)
        return model, lambda: model(data).square().mean()
    if name == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel

        model = GPT2LMHeadModel(GPT2Config()).to(device, torch.bfloat16)
        ids = torch.randint(0, 50257, (8, 512), device=device)
        return model, lambda: model(input_ids=ids, labels=ids).loss
    import torchvision

    model = torchvision.models.resnet50().to(device)
    images = torch.randn(32, 3, 224, 224, device=device)
    labels = torch.randint(0, 1000, (32,), device=device)
    return model, lambda: torch.nn.functional.cross_entropy(model(images), labels)


def train(name, steps):
    """Milliseconds a step, after ten that warm up."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    model, loss_of = build(name)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of().backward()
        optimizer.step()

    for _ in range(10):
        step()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - begin) / steps


def measured(name, settings, steps):
    environment = {**os.environ, **settings}
    command = [sys.executable, "-W", "ignore", __file__, "--model", name, "--steps", str(steps)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise SystemExit(ended.stderr)
    return json.loads(ended.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--model", choices=MODELS)
    asked = parser.parse_args()
    if asked.model is not None:
        print(json.dumps(train(asked.model, asked.steps)))
        return
    print("| settings | model | ms a step | beside none |")
    print("| --- | --- | --- | --- |")
    for name in MODELS:
        plain = None
        for settings in SETTINGS:
            milliseconds = measured(name, settings, asked.steps)
            plain = plain or milliseconds
            words = ", ".join(f"`{key}={value}`" for key, value in settings.items()) or "none"
            print(
                f"| {words} | {name} | {milliseconds:.2f} | {milliseconds / plain:.2f} x |",
                flush=True,
            )


if __name__ == "__main__":
    main()
