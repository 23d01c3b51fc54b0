"""LoKr adapters on a frozen DINOv3 ViT to grade tissue tiles: a wrapper module in the HF Trainer, bf16, attention-pooled head, cosine with restarts."""

import argparse
import tempfile

import torch
from peft import LoKrConfig, get_peft_model
from torch import nn
from torch.utils.data import Dataset
from transformers import DINOv3ViTConfig, DINOv3ViTModel, Trainer, TrainingArguments, set_seed

GRADES = 5


class Tiles(Dataset):
    def __init__(self, n, size, seed):
        self.n, self.size, self.seed = n, size, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 10_007 + i)
        grade = int(torch.randint(GRADES, (1,), generator=g))
        image = torch.randn(3, self.size, self.size, generator=g)
        image[0] += grade * 0.3
        return {"pixel_values": image, "labels": grade}


class Grader(nn.Module):
    def __init__(self, backbone, hidden):
        super().__init__()
        self.backbone = backbone
        self.query = nn.Parameter(torch.randn(1, 1, hidden) * 0.02)
        self.pool = nn.MultiheadAttention(hidden, hidden // 64, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, GRADES - 1))

    def forward(self, pixel_values, labels=None):
        tokens = self.backbone(pixel_values=pixel_values).last_hidden_state
        pooled, _ = self.pool(
            self.query.expand(len(tokens), -1, -1).to(tokens.dtype),
            tokens,
            tokens,
            need_weights=False,
        )
        logits = self.head(pooled[:, 0])
        out = {"logits": logits}
        if labels is not None:
            # ordinal targets: is the grade above k?
            above = (labels[:, None] > torch.arange(GRADES - 1, device=labels.device)).to(
                logits.dtype
            )
            out = {
                "loss": nn.functional.binary_cross_entropy_with_logits(logits, above),
                "logits": logits,
            }
        return out


def kappa(p):
    guess, truth = (p.predictions > 0).sum(-1), p.label_ids
    agree = (guess == truth).mean()
    chance = sum((guess == k).mean() * (truth == k).mean() for k in range(GRADES))
    return {"accuracy": float(agree), "kappa": float((agree - chance) / (1 - chance + 1e-9))}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hidden", type=int, default=768)
    ap.add_argument("--layers", type=int, default=12)
    ap.add_argument("--size", type=int, default=256)
    ap.add_argument("--batch", type=int, default=72)
    ap.add_argument("--steps", type=int, default=36)
    ap.add_argument("--workers", type=int, default=6)
    args = ap.parse_args()
    set_seed(58)
    backbone = DINOv3ViTModel(
        DINOv3ViTConfig(
            hidden_size=args.hidden,
            intermediate_size=4 * args.hidden,
            num_hidden_layers=args.layers,
            num_attention_heads=args.hidden // 64,
            image_size=args.size,
            num_register_tokens=4,
            drop_path_rate=0.0,
        )
    )
    backbone = get_peft_model(
        backbone,
        LoKrConfig(
            r=16,
            alpha=32,
            target_modules=["q_proj", "v_proj", "up_proj", "down_proj"],
            module_dropout=0.0,
        ),
    )
    backbone.print_trainable_parameters()
    model = Grader(backbone, args.hidden)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                max_steps=args.steps,
                per_device_train_batch_size=args.batch,
                per_device_eval_batch_size=2 * args.batch,
                bf16=True,
                learning_rate=1e-3,
                lr_scheduler_type="cosine_with_restarts",
                lr_scheduler_kwargs={"num_cycles": 2},
                warmup_steps=3,
                eval_strategy="steps",
                eval_steps=args.steps // 2,
                save_strategy="no",
                logging_steps=6,
                dataloader_num_workers=args.workers,
                remove_unused_columns=False,
                label_names=["labels"],
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Tiles(args.batch * args.steps, args.size, 1),
            eval_dataset=Tiles(args.batch * 4, args.size, 2),
            compute_metrics=kappa,
        )
        trainer.train()


if __name__ == "__main__":
    main()
