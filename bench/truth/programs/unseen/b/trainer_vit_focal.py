"""ViT by the Trainer with Adafactor, a loss of its own, checkpointing and evaluation whose logits go to the host."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import (
    EarlyStoppingCallback,
    Trainer,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
)


class Plants(Dataset):
    def __init__(self, count, size, classes, seed):
        rng = np.random.default_rng(seed)
        self.pixels = rng.integers(0, 256, (count, 3, size, size), dtype=np.uint8)
        self.labels = rng.integers(0, classes, count)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        pixels = torch.from_numpy(self.pixels[i]).float().div(127.5).sub(1)
        return {"pixel_values": pixels, "labels": int(self.labels[i])}


class FocalTrainer(Trainer):
    def __init__(self, *args, gamma=2.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.gamma = gamma

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        logp = F.log_softmax(outputs.logits.float(), -1)
        picked = logp.gather(1, labels[:, None]).squeeze(1)
        loss = (-((1 - picked.exp()) ** self.gamma) * picked).mean()
        return (loss, outputs) if return_outputs else loss


def compute_metrics(pred):
    order = np.argsort(-pred.predictions, axis=1)[:, :5]
    top1 = (order[:, 0] == pred.label_ids).mean()
    top5 = (order == pred.label_ids[:, None]).any(1).mean()
    return {"top1": float(top1), "top5": float(top5)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train-size", type=int, default=480)
    parser.add_argument("--eval-size", type=int, default=300)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    config = ViTConfig(
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=args.hidden * 4,
        image_size=args.image_size,
        num_labels=args.classes,
        hidden_dropout_prob=0.1,
    )
    model = ViTForImageClassification(config)
    training = TrainingArguments(
        output_dir="plants",
        optim="adafactor",
        learning_rate=1e-3,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=4,
        bf16=torch.cuda.is_available(),
        gradient_checkpointing=True,
        per_device_train_batch_size=args.batch,
        per_device_eval_batch_size=args.batch * 4,
        eval_accumulation_steps=2,
        num_train_epochs=args.epochs,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="top5",
        greater_is_better=True,
        remove_unused_columns=False,
        logging_steps=5,
        report_to="none",
    )
    trainer = FocalTrainer(
        model=model,
        args=training,
        train_dataset=Plants(args.train_size, args.image_size, args.classes, 0),
        eval_dataset=Plants(args.eval_size, args.image_size, args.classes, 1),
        compute_metrics=compute_metrics,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
        gamma=1.5,
    )
    trainer.train()
    print(trainer.predict(Plants(args.batch, args.image_size, args.classes, 2)).metrics)


if __name__ == "__main__":
    main()
