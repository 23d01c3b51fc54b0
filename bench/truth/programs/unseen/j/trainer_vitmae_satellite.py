"""Masked-autoencoder pretraining of a ViT on satellite tiles, with the HF Trainer."""

import argparse
import math
import sys

import torch
from torch.utils.data import Dataset
from torchvision import transforms as T
from transformers import Trainer, TrainingArguments, ViTMAEConfig, ViTMAEForPreTraining, set_seed


class Tiles(Dataset):
    """Random tiles that stand in for the satellite archive."""

    def __init__(self, count, size, train):
        self.count, self.size = count, size
        ops = [T.RandomResizedCrop(size, scale=(0.3, 1.0), antialias=True), T.RandomVerticalFlip()]
        self.aug = T.Compose(ops) if train else T.CenterCrop(size)

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        tile = torch.rand(
            3, self.size + 32, self.size + 32, generator=torch.Generator().manual_seed(i)
        )
        return {"pixel_values": (self.aug(tile) - 0.5) / 0.25}


def collate(items):
    return {"pixel_values": torch.stack([x["pixel_values"] for x in items])}


def get_args(argv):
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=224)
    ap.add_argument("--patch", type=int, default=16)
    ap.add_argument("--hidden", type=int, default=1024)
    ap.add_argument("--layers", type=int, default=24)
    ap.add_argument("--decoder-hidden", type=int, default=512)
    ap.add_argument("--decoder-layers", type=int, default=8)
    ap.add_argument("--mask-ratio", type=float, default=0.75)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--eval-batch", type=int, default=192)
    ap.add_argument("--steps", type=int, default=16)
    ap.add_argument("--base-lr", type=float, default=1.5e-4)
    ap.add_argument("--workers", type=int, default=6)
    return ap.parse_args(argv)


def main(argv=None):
    a = get_args(argv if argv is not None else sys.argv[1:])
    set_seed(13)
    model = ViTMAEForPreTraining(
        ViTMAEConfig(
            image_size=a.size,
            patch_size=a.patch,
            hidden_size=a.hidden,
            num_hidden_layers=a.layers,
            num_attention_heads=a.hidden // 64,
            intermediate_size=4 * a.hidden,
            decoder_hidden_size=a.decoder_hidden,
            decoder_num_hidden_layers=a.decoder_layers,
            decoder_num_attention_heads=16,
            decoder_intermediate_size=4 * a.decoder_hidden,
            mask_ratio=a.mask_ratio,
            norm_pix_loss=True,
        )
    )
    args = TrainingArguments(
        output_dir="mae_satellite",
        max_steps=a.steps,
        per_device_train_batch_size=a.batch,
        per_device_eval_batch_size=a.eval_batch,
        learning_rate=a.base_lr * a.batch / 256 * math.sqrt(2),
        weight_decay=0.05,
        adam_beta2=0.95,
        optim="adamw_torch",
        bf16=True,
        tf32=torch.cuda.is_available(),
        eval_strategy="steps",
        eval_steps=a.steps // 2,
        prediction_loss_only=True,
        logging_steps=4,
        save_strategy="no",
        remove_unused_columns=False,
        dataloader_num_workers=a.workers,
        label_names=["pixel_values"],
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=args,
        data_collator=collate,
        train_dataset=Tiles(a.batch * a.steps, a.size, True),
        eval_dataset=Tiles(2 * a.eval_batch, a.size, False),
    )
    trainer.train()
    trainer.save_model("mae_satellite/final")


if __name__ == "__main__":
    main()
