"""FocalNet on 60 kinds of mushrooms, fp16, keeps the best checkpoint by accuracy."""

import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from torchvision.transforms import v2
from transformers import (
    FocalNetConfig,
    FocalNetForImageClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

IMAGE = 224
KINDS = 60
TRAIN_BATCH = 64
EVAL_BATCH = 128
EPOCHS = 3
N_TRAIN, N_VALID = 512, 256
EMBED = 96
DEPTHS = [2, 2, 18, 2]

set_seed(77)


class Mushrooms(Dataset):
    def __init__(self, n, augment):
        self.pictures = torch.randint(0, 256, (n, 3, IMAGE, IMAGE), dtype=torch.uint8)
        self.kinds = torch.randint(0, KINDS, (n,))
        steps = [v2.RandomHorizontalFlip()] if augment else []
        steps += [
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
        self.transform = v2.Compose(steps)

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, i):
        return {"pixel_values": self.transform(self.pictures[i]), "labels": self.kinds[i]}


def accuracy(prediction):
    logits = (
        prediction.predictions[0]
        if isinstance(prediction.predictions, tuple)
        else prediction.predictions
    )
    return {"accuracy": float((np.argmax(logits, axis=-1) == prediction.label_ids).mean())}


config = FocalNetConfig(
    image_size=IMAGE,
    embed_dim=EMBED,
    depths=DEPTHS,
    focal_levels=[2, 2, 2, 2],
    drop_path_rate=0.2,
    num_labels=KINDS,
)
model = FocalNetForImageClassification(config)

with tempfile.TemporaryDirectory() as folder:
    args = TrainingArguments(
        output_dir=folder,
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=TRAIN_BATCH,
        per_device_eval_batch_size=EVAL_BATCH,
        fp16=True,
        learning_rate=5e-4,
        weight_decay=0.05,
        lr_scheduler_type="cosine",
        warmup_steps=4,
        label_smoothing_factor=0.1,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        greater_is_better=True,
        logging_steps=4,
        remove_unused_columns=False,
        dataloader_num_workers=2,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Mushrooms(N_TRAIN, augment=True),
        eval_dataset=Mushrooms(N_VALID, augment=False),
        compute_metrics=accuracy,
    )
    trainer.train()
    final = trainer.evaluate()
    print(
        "best checkpoint:", trainer.state.best_model_checkpoint, "accuracy:", final["eval_accuracy"]
    )
