"""Optical flow of drifting smoke with torchvision's RAFT (small), sequence loss over the updates, clipping, OneCycle."""

import torch
import torch.nn.functional as F
from torchvision.models.optical_flow import raft_small

HEIGHT, WIDTH = 368, 496
BATCH = 10
UPDATES = 10
STEPS = 25
GAMMA = 0.8


def smoke(batch, device, generator):
    """Two frames and the true flow between them: smooth noise, warped by a smooth flow field."""
    texture = torch.rand(batch, 3, HEIGHT // 4, WIDTH // 4, device=device, generator=generator)
    first = F.interpolate(texture, size=(HEIGHT, WIDTH), mode="bicubic").clamp(0, 1)
    flow = torch.randn(batch, 2, 4, 5, device=device, generator=generator) * 6
    flow = F.interpolate(flow, size=(HEIGHT, WIDTH), mode="bilinear", align_corners=True)
    ys, xs = torch.meshgrid(
        torch.arange(HEIGHT, device=device),
        torch.arange(WIDTH, device=device),
        indexing="ij",
    )
    gx = (xs - flow[:, 0]) / (WIDTH - 1) * 2 - 1
    gy = (ys - flow[:, 1]) / (HEIGHT - 1) * 2 - 1
    second = F.grid_sample(
        first, torch.stack([gx, gy], -1), padding_mode="border", align_corners=True
    )
    return first * 2 - 1, second * 2 - 1, flow


def sequence_loss(predictions, truth):
    n = len(predictions)
    return sum(GAMMA ** (n - i - 1) * (p - truth).abs().mean() for i, p in enumerate(predictions))


def train():
    torch.manual_seed(44)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator(device).manual_seed(45)
    model = raft_small(weights=None).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 4e-4, total_steps=STEPS + 5, pct_start=0.1, anneal_strategy="linear"
    )
    for step in range(1, STEPS + 1):
        first, second, flow = smoke(BATCH, device, generator)
        predictions = model(first, second, num_flow_updates=UPDATES)
        loss = sequence_loss(predictions, flow)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 5 == 0:
            epe = (predictions[-1].detach() - flow).norm(dim=1).mean().item()
            print(f"step {step} loss {loss.item():.3f} end point error {epe:.3f}")

    model.eval()
    with torch.no_grad():
        first, second, flow = smoke(BATCH, device, generator)
        last = model(first, second, num_flow_updates=2 * UPDATES)[-1]
        print("test EPE", (last - flow).norm(dim=1).mean().item())


if __name__ == "__main__":
    train()
