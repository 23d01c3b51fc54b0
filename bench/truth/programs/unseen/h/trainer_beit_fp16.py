"""BEiT-base on synthetic textures: Trainer in fp16, label smoothing, workers for loading."""

import numpy as np
import torch
from torch.utils.data import Dataset
from torchvision.transforms import v2
from transformers import (
    BeitConfig,
    BeitForImageClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

IMAGE_SIZE = 224
NUM_CLASSES = 40
TRAIN_IMAGES = 1500
VALID_IMAGES = 500
BATCH = 64
EVAL_BATCH = 160
HIDDEN = 768
LAYERS = 12


class Textures(Dataset):
    """Striped uint8 images: the class sets the period and the direction of the stripes."""

    def __init__(self, size, train):
        self.size = size
        self.offset = 0 if train else 1_000_000
        tail = [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)]
        head = (
            [v2.RandomCrop(IMAGE_SIZE), v2.RandomHorizontalFlip()]
            if train
            else [v2.CenterCrop(IMAGE_SIZE)]
        )
        self.transform = v2.Compose(head + tail)
        side = IMAGE_SIZE + 32
        self.y, self.x = np.mgrid[0:side, 0:side].astype(np.float32)

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        rng = np.random.default_rng(self.offset + i)
        label = int(rng.integers(NUM_CLASSES))
        angle = np.pi * (label % 8) / 8
        period = 4 + 3 * (label // 8)
        wave = np.sin((self.x * np.cos(angle) + self.y * np.sin(angle)) * 2 * np.pi / period)
        image = 127 + 80 * wave[None] * rng.random((3, 1, 1), dtype=np.float32)
        image = torch.from_numpy(np.clip(image, 0, 255).astype(np.uint8))
        return {"pixel_values": self.transform(image), "labels": label}


def metrics(pred):
    logits = pred.predictions
    top5 = np.argsort(-logits, axis=-1)[:, :5]
    return {
        "top1": float((top5[:, 0] == pred.label_ids).mean()),
        "top5": float((top5 == pred.label_ids[:, None]).any(-1).mean()),
    }


def main():
    set_seed(7)
    config = BeitConfig(
        image_size=IMAGE_SIZE,
        patch_size=16,
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=12,
        intermediate_size=4 * HIDDEN,
        use_relative_position_bias=True,
        use_absolute_position_embeddings=False,
        use_mean_pooling=True,
        drop_path_rate=0.1,
        layer_scale_init_value=0.1,
        num_labels=NUM_CLASSES,
    )
    model = BeitForImageClassification(config)

    args = TrainingArguments(
        output_dir="beit-textures",
        num_train_epochs=1,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=EVAL_BATCH,
        learning_rate=5e-4,
        weight_decay=0.05,
        lr_scheduler_type="cosine",
        warmup_steps=5,
        label_smoothing_factor=0.1,
        fp16=True,
        max_grad_norm=3.0,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_only_model=True,
        logging_steps=4,
        dataloader_num_workers=3,
        remove_unused_columns=False,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Textures(TRAIN_IMAGES, True),
        eval_dataset=Textures(VALID_IMAGES, False),
        compute_metrics=metrics,
    )
    result = trainer.train()
    trainer.log_metrics("train", result.metrics)
    trainer.save_metrics("train", result.metrics)
    trainer.save_state()


if __name__ == "__main__":
    main()
