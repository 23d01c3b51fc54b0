"""SegFormer on street scenes with accelerate: fp16, poly schedule, logits brought to full size for the mean IoU."""

import argparse
import os

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import SegformerConfig, SegformerForSemanticSegmentation, get_scheduler


class Streets(Dataset):
    def __init__(self, count, size, classes, seed):
        self.count, self.size, self.classes, self.seed = count, size, classes, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100_003 + i)
        rough = torch.randint(0, self.classes, (1, 1, 8, 8), generator=g).float()
        labels = F.interpolate(rough, size=(self.size, self.size)).long()[0, 0]
        labels[:4] = 255
        pixels = torch.rand(3, self.size, self.size, generator=g) + labels.float() / self.classes
        return {"pixel_values": pixels, "labels": labels}


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_images", type=int, default=200)
    parser.add_argument("--val_images", type=int, default=70)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--classes", type=int, default=64)
    parser.add_argument("--per_device_train_batch_size", type=int, default=8)
    parser.add_argument("--per_device_eval_batch_size", type=int, default=16)
    parser.add_argument("--num_train_epochs", type=int, default=2)
    parser.add_argument("--learning_rate", type=float, default=6e-5)
    parser.add_argument("--checkpointing_steps", default="epoch")
    parser.add_argument("--output_dir", default="segformer")
    parser.add_argument("--seed", type=int, default=4)
    return parser.parse_args()


def confusion(predictions, references, classes):
    keep = references != 255
    cells = references[keep] * classes + predictions[keep]
    return torch.bincount(cells, minlength=classes**2).view(classes, classes)


def main():
    args = parse_args()
    set_seed(args.seed)
    mixed = "fp16" if torch.cuda.is_available() else "no"
    accelerator = Accelerator(mixed_precision=mixed, project_dir=args.output_dir)
    config = SegformerConfig(
        depths=[2, 2, 2, 2],
        hidden_sizes=[64, 128, 320, 512],
        decoder_hidden_size=256,
        num_labels=args.classes,
        semantic_loss_ignore_index=255,
    )
    model = SegformerForSemanticSegmentation(config)
    train = DataLoader(
        Streets(args.train_images, args.size, args.classes, 1),
        batch_size=args.per_device_train_batch_size,
        shuffle=True,
        num_workers=4,
    )
    val = DataLoader(
        Streets(args.val_images, args.size, args.classes, 2),
        batch_size=args.per_device_eval_batch_size,
        num_workers=2,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, betas=(0.9, 0.999))
    scheduler = get_scheduler(
        "polynomial",
        optimizer=optimizer,
        num_warmup_steps=0,
        num_training_steps=args.num_train_epochs * len(train),
    )
    model, optimizer, train, val, scheduler = accelerator.prepare(
        model, optimizer, train, val, scheduler
    )
    for epoch in range(args.num_train_epochs):
        model.train()
        total_loss = 0
        for step, batch in enumerate(train):
            with accelerator.accumulate(model):
                outputs = model(**batch)
                loss = outputs.loss
                total_loss += loss.detach().float()
                accelerator.backward(loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        if args.checkpointing_steps == "epoch":
            accelerator.save_state(os.path.join(args.output_dir, f"epoch_{epoch}"))

        model.eval()
        matrix = torch.zeros(
            args.classes, args.classes, dtype=torch.long, device=accelerator.device
        )
        for batch in val:
            with torch.no_grad():
                outputs = model(**batch)
            upsampled = torch.nn.functional.interpolate(
                outputs.logits,
                size=batch["labels"].shape[-2:],
                mode="bilinear",
                align_corners=False,
            )
            predictions = upsampled.argmax(dim=1)
            predictions, references = accelerator.gather_for_metrics((predictions, batch["labels"]))
            matrix += confusion(predictions, references, args.classes)
        overlap = matrix.diag().float()
        iou = overlap / (matrix.sum(0) + matrix.sum(1) - overlap).clamp(min=1)
        accelerator.print(
            f"epoch {epoch}: loss {total_loss.item() / len(train):.3f}, IoU {iou.mean().item():.3f}"
        )
    accelerator.wait_for_everyone()
    unwrapped = accelerator.unwrap_model(model)
    unwrapped.save_pretrained(
        args.output_dir,
        is_main_process=accelerator.is_main_process,
        save_function=accelerator.save,
    )


if __name__ == "__main__":
    main()
