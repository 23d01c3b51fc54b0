"""Segment ponds from the air with MobileViTV2 + DeepLab head; Accelerate fp16, poly schedule, mIoU by confusion matrix, tracker-free logging."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.logging import get_logger
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import MobileViTV2Config, MobileViTV2ForSemanticSegmentation

logger = get_logger(__name__)
LABELS = ["ground", "pond", "reed", "road", "roof"]


class Aerial(Dataset):
    def __init__(self, count: int, side: int, seed: int):
        self.count, self.side, self.seed = count, side, seed

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int):
        rng = np.random.default_rng((self.seed, index))
        coarse = rng.integers(0, len(LABELS), (self.side // 64, self.side // 64))
        mask = np.kron(coarse, np.ones((64, 64), dtype=np.int64))
        image = rng.random((3, self.side, self.side), dtype=np.float32) * 0.4
        image += (mask / len(LABELS)).astype(np.float32)
        mask[:4] = mask[-4:] = 255
        return {"pixel_values": image, "labels": mask}


def confusion(pred: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    n = len(LABELS)
    keep = truth != 255
    return torch.bincount(truth[keep] * n + pred[keep], minlength=n * n).view(n, n)


@torch.inference_mode()
def evaluate(model, loader, accelerator) -> float:
    model.eval()
    table = torch.zeros(len(LABELS), len(LABELS), device=accelerator.device, dtype=torch.long)
    for batch in loader:
        logits = model(pixel_values=batch["pixel_values"]).logits
        logits = F.interpolate(logits.float(), size=batch["labels"].shape[-2:], mode="bilinear")
        pred, truth = accelerator.gather_for_metrics((logits.argmax(1), batch["labels"]))
        table += confusion(pred, truth)
    model.train()
    inter = table.diag().float()
    return (inter / (table.sum(0) + table.sum(1) - table.diag()).clamp(min=1)).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--width", type=float, default=1.5)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--workers", type=int, default=6)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")

    accelerator = Accelerator(mixed_precision=args.precision)
    set_seed(71)
    config = MobileViTV2Config(
        image_size=args.side, width_multiplier=args.width, output_stride=16, num_labels=len(LABELS)
    )
    model = MobileViTV2ForSemanticSegmentation(config)
    head = [p for n, p in model.named_parameters() if n.startswith("segmentation_head")]
    body = [p for n, p in model.named_parameters() if not n.startswith("segmentation_head")]
    optimizer = torch.optim.AdamW(
        [{"params": body, "lr": 2e-4}, {"params": head, "lr": 2e-3}], weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, args.steps, power=0.9)
    train = DataLoader(
        Aerial(args.batch * args.steps, args.side, 1),
        args.batch,
        shuffle=True,
        num_workers=args.workers,
        drop_last=True,
    )
    val = DataLoader(Aerial(args.batch * 3, args.side, 2), args.batch, num_workers=args.workers)
    model, optimizer, train, val, schedule = accelerator.prepare(
        model, optimizer, train, val, schedule
    )

    for step, batch in enumerate(train, 1):
        loss = model(**batch).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            logger.info(f"step {step} loss {loss.item():.4f}")
    miou = evaluate(model, val, accelerator)
    logger.info(f"mIoU {miou:.4f}")
    with TemporaryDirectory() as folder:
        accelerator.unwrap_model(model).save_pretrained(Path(folder) / "ponds")


if __name__ == "__main__":
    main()
