"""Monocular depth with DPT (ViT backbone), full precision with TF32, scale-invariant loss, accelerate."""

import argparse

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import DPTConfig, DPTForDepthEstimation

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True


class Rooms(Dataset):
    """A floor and a wall with boxes; depth is exact."""

    def __init__(self, n, size, seed):
        self.n, self.size, self.seed = n, size, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100003 + i)
        s = self.size
        rows = torch.linspace(0.2, 1.0, s)[:, None].expand(s, s)
        depth = 10 * (1.2 - rows).clone()
        for _ in range(6):
            x, y, w, h = (torch.rand(4, generator=g) * s * 0.6).int().tolist()
            depth[y : y + h + 8, x : x + w + 8] = 1 + 6 * torch.rand(1, generator=g)
        shade = (1 / depth)[None] * torch.rand(3, 1, 1, generator=g)
        return shade + 0.05 * torch.rand(3, s, s, generator=g), depth


def silog(pred, target, beta=0.5):
    d = torch.log(pred.clamp(min=1e-3)) - torch.log(target.clamp(min=1e-3))
    return torch.sqrt((d**2).mean() - beta * d.mean() ** 2 + 1e-6)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--train", type=int, default=100)
    p.add_argument("--valid", type=int, default=18)
    p.add_argument("--size", type=int, default=384)
    p.add_argument("--hidden", type=int, default=768)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--epochs", type=int, default=2)
    a = p.parse_args()
    accelerator = Accelerator()
    config = DPTConfig(
        hidden_size=a.hidden,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=4 * a.hidden,
        image_size=a.size,
        patch_size=16,
        is_hybrid=False,
        backbone_out_indices=[2, 5, 8, 11],
        neck_hidden_sizes=[96, 192, 384, 768],
        fusion_hidden_size=256,
        use_auxiliary_head=False,
        use_batch_norm_in_fusion_residual=True,
    )
    model = DPTForDepthEstimation(config)
    backbone = [q for n, q in model.named_parameters() if n.startswith("dpt.")]
    heads = [q for n, q in model.named_parameters() if not n.startswith("dpt.")]
    optimizer = torch.optim.AdamW([{"params": backbone, "lr": 1e-5}, {"params": heads, "lr": 1e-4}])
    train = DataLoader(Rooms(a.train, a.size, 1), batch_size=a.batch, shuffle=True, num_workers=2)
    valid = DataLoader(Rooms(a.valid, a.size, 2), batch_size=4)
    model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, a.epochs * len(train))

    best = float("inf")
    for epoch in range(a.epochs):
        model.train()
        for step, (image, depth) in enumerate(train):
            pred = model(pixel_values=image).predicted_depth
            loss = silog(pred + 0.1, depth)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            if step % 5 == 0:
                accelerator.print(f"{epoch}.{step} silog {loss.item():.4f}")
        model.eval()
        errors = []
        with torch.inference_mode():
            for image, depth in valid:
                pred = model(pixel_values=image).predicted_depth
                flipped = model(pixel_values=image.flip(-1)).predicted_depth.flip(-1)
                pred = F.interpolate(
                    ((pred + flipped) / 2)[:, None], size=depth.shape[-2:], mode="bicubic"
                )[:, 0]
                errors.append(
                    accelerator.gather_for_metrics(((pred - depth).abs() / depth).mean((1, 2)))
                )
        absrel = torch.cat(errors).mean().item()
        accelerator.print(f"epoch {epoch} abs rel {absrel:.3f}")
        if absrel < best:
            best = absrel
            accelerator.save(accelerator.unwrap_model(model).state_dict(), "dpt_best.pt")


if __name__ == "__main__":
    main()
