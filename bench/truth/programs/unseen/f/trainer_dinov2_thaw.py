"""DINOv2 on flowers: the Trainer with its own loss, the body thawed after some steps by a callback."""

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import (
    Dinov2Config,
    Dinov2ForImageClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    get_cosine_schedule_with_warmup,
)

CONFIG = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 224,
    "patch_size": 14,
    "num_labels": 102,
}
STEPS, THAW_AT = 60, 25
BATCH = 64


class Flowers(Dataset):
    def __init__(self, count, offset=0):
        self.count, self.offset = count, offset

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        rng = np.random.default_rng(i + self.offset)
        label = int(rng.integers(CONFIG["num_labels"]))
        size = CONFIG["image_size"]
        image = rng.integers(0, 256, (3, size, size), dtype=np.uint8)
        image[label % 3] //= 2
        return {"image": image, "label": label}


def collate(rows):
    pixels = torch.from_numpy(np.stack([r["image"] for r in rows])).float() / 127.5 - 1
    return {"pixel_values": pixels, "labels": torch.tensor([r["label"] for r in rows])}


class Thaw(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_begin(self, args, state, control, model=None, **kwargs):
        if state.global_step == self.step:
            for p in model.dinov2.parameters():
                p.requires_grad_(True)
            print(f"thawed at {state.global_step}")


class FocalTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        ce = F.cross_entropy(outputs.logits, labels, reduction="none")
        loss = ((1 - torch.exp(-ce)) ** 2 * ce).mean()
        return (loss, outputs) if return_outputs else loss


def layer_groups(model, lr, decay=0.75):
    """The lower the layer, the smaller its rate."""
    depth = CONFIG["num_hidden_layers"] + 1
    groups = {}
    for name, p in model.named_parameters():
        if name.startswith("classifier"):
            level = depth
        elif ".layer." in name:
            level = int(name.split(".layer.")[1].split(".")[0]) + 1
        else:
            level = 0
        key = (level, p.ndim > 1)
        group = {
            "params": [],
            "lr": lr * decay ** (depth - level),
            "weight_decay": 0.05 * (p.ndim > 1),
        }
        groups.setdefault(key, group)["params"].append(p)
    return list(groups.values())


def main():
    torch.manual_seed(0)
    model = Dinov2ForImageClassification(Dinov2Config(**CONFIG))
    optimizer = torch.optim.AdamW(layer_groups(model, 3e-4))
    schedule = get_cosine_schedule_with_warmup(optimizer, 5, STEPS)
    model.dinov2.requires_grad_(False)
    args = TrainingArguments(
        output_dir="flowers",
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=3 * BATCH,
        bf16=True,
        dataloader_num_workers=6,
        remove_unused_columns=False,
        eval_strategy="steps",
        eval_steps=STEPS // 2,
        save_strategy="no",
        logging_steps=10,
        label_names=["labels"],
        report_to="none",
    )
    trainer = FocalTrainer(
        model,
        args,
        data_collator=collate,
        train_dataset=Flowers(BATCH * STEPS),
        eval_dataset=Flowers(400, 1_000_000),
        compute_metrics=lambda p: {
            "accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())
        },
        optimizers=(optimizer, schedule),
        callbacks=[Thaw(THAW_AT)],
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
