"""Hooks on a ConvNet: activation statistics while it trains, then maps of what it looked at, for a large batch."""

import argparse
from collections import defaultdict

import torch
import torch.nn.functional as F
import torchvision
from torch import nn


class ActivationStats:
    """Mean and spread of what each block gives, kept on the card until asked for."""

    def __init__(self, model, kinds):
        self.values = defaultdict(list)
        self.handles = [
            m.register_forward_hook(self.hook(name))
            for name, m in model.named_modules()
            if isinstance(m, kinds)
        ]

    def hook(self, name):
        def keep(module, inputs, output):
            if module.training:
                out = output.detach().float()
                self.values[name].append(
                    torch.stack([out.mean(), out.std(), (out.abs() < 0.05).float().mean()])
                )

        return keep

    def table(self):
        return {name: torch.stack(rows).mean(0).tolist() for name, rows in self.values.items()}

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


class GradCAM:
    def __init__(self, model, layer):
        self.model, self.activations, self.gradients = model, None, None
        self.handles = [
            layer.register_forward_hook(self.save_activation),
            layer.register_full_backward_hook(self.save_gradient),
        ]

    def save_activation(self, module, inputs, output):
        self.activations = output

    def save_gradient(self, module, grad_input, grad_output):
        self.gradients = grad_output[0]

    def __call__(self, images, classes=None):
        logits = self.model(images)
        classes = logits.argmax(-1) if classes is None else classes
        self.model.zero_grad()
        logits.gather(1, classes[:, None]).sum().backward(retain_graph=True)
        weights = self.gradients.mean((2, 3), keepdim=True)
        maps = F.relu((weights * self.activations).sum(1, keepdim=True))
        maps = F.interpolate(maps, size=images.shape[-2:], mode="bilinear")
        low, high = maps.amin((1, 2, 3), keepdim=True), maps.amax((1, 2, 3), keepdim=True)
        return (maps - low) / (high - low + 1e-8)


def batches(args, device, g):
    for _ in range(args.steps):
        x = torch.randn(args.batch, 3, args.size, args.size, generator=g, device=device)
        yield x, torch.randint(0, args.classes, (args.batch,), generator=g, device=device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", default="resnext50_32x4d")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--map-batch", type=int, default=80)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--classes", type=int, default=120)
    args = parser.parse_args()
    torch.manual_seed(30)
    device = torch.device("cuda")
    g = torch.Generator(device=device)
    g.manual_seed(30)
    model = torchvision.models.get_model(args.arch, num_classes=args.classes).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    bad = []

    def watch(module, grad_input, grad_output):
        if grad_output[0] is not None:
            bad.append(torch.isnan(grad_output[0]).any())

    watcher = model.fc.register_full_backward_hook(watch)
    with ActivationStats(model, (nn.ReLU, nn.BatchNorm2d)) as stats:
        for step, (x, y) in enumerate(batches(args, device, g)):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 10 == 0:
                print(f"{step}: {loss.item():.3f}")
        table = stats.table()
    watcher.remove()
    print("NaN in", int(torch.stack(bad).sum()), "steps")
    for name in list(table)[:3]:
        print(name, [round(v, 3) for v in table[name]])
    model.eval()
    cam = GradCAM(model, model.layer4[-1])
    x = torch.randn(args.map_batch, 3, args.size, args.size, generator=g, device=device)
    maps = cam(x)
    smooth = (
        sum(
            cam(x + 0.1 * torch.randn(x.shape, generator=g, device=device)).detach()
            for _ in range(3)
        )
        / 3
    )
    print(tuple(maps.shape), (maps.detach() - smooth).abs().mean().item())


if __name__ == "__main__":
    main()
