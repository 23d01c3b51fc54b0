"""CvT-13 from scratch on satellite chips of mangroves: HF Trainer in fp16, colour jitter in the workers."""

import tempfile

import torch
import torchvision.transforms.v2 as T
from torch.utils.data import Dataset
from transformers import CvtConfig, CvtForImageClassification, Trainer, TrainingArguments, set_seed

CLASSES = ["avicennia", "rhizophora", "sonneratia", "mudflat", "water", "other"]
SIZE = 224
BATCH = 96
STEPS = 36
WORKERS = 4


class Chips(Dataset):
    def __init__(self, n, seed, train):
        self.n, self.seed = n, seed
        steps = [T.RandomHorizontalFlip(), T.ColorJitter(0.2, 0.2)] if train else []
        self.transform = T.Compose(steps + [T.Normalize([0.5] * 3, [0.25] * 3)])

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 65_537 + i)
        y = int(torch.randint(len(CLASSES), (1,), generator=g))
        tint = torch.tensor([0.1 * y, 0.5 - 0.05 * y, 0.3]).view(3, 1, 1)
        image = torch.rand(3, SIZE, SIZE, generator=g).mul_(0.5).add_(tint).clamp_(0, 1)
        return {"pixel_values": self.transform(image), "labels": y}


def collate(rows):
    return {
        "pixel_values": torch.stack([r["pixel_values"] for r in rows]),
        "labels": torch.tensor([r["labels"] for r in rows]),
    }


def accuracy(p):
    logits = p.predictions[0] if isinstance(p.predictions, tuple) else p.predictions
    return {"accuracy": float((logits.argmax(-1) == p.label_ids).mean())}


def main():
    set_seed(5)
    config = CvtConfig(
        embed_dim=[64, 192, 384],
        num_heads=[1, 3, 6],
        depth=[1, 2, 10],
        drop_path_rate=[0.0, 0.0, 0.1],
        num_labels=len(CLASSES),
    )
    model = CvtForImageClassification(config)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            max_steps=STEPS,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=2 * BATCH,
            fp16=True,
            learning_rate=5e-4,
            lr_scheduler_type="cosine",
            warmup_steps=4,
            weight_decay=0.05,
            max_grad_norm=5.0,
            eval_strategy="steps",
            eval_steps=STEPS // 2,
            save_strategy="steps",
            save_steps=STEPS // 2,
            save_total_limit=1,
            load_best_model_at_end=True,
            metric_for_best_model="accuracy",
            greater_is_better=True,
            dataloader_num_workers=WORKERS,
            dataloader_drop_last=True,
            remove_unused_columns=False,
            logging_steps=9,
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=model,
            args=args,
            data_collator=collate,
            train_dataset=Chips(BATCH * STEPS, 1, True),
            eval_dataset=Chips(BATCH * 4, 2, False),
            compute_metrics=accuracy,
        )
        result = trainer.train()
        print("train loss", round(result.training_loss, 4))
        print("best", trainer.state.best_metric, "at", trainer.state.best_global_step)


if __name__ == "__main__":
    main()
