"""Match product photos and descriptions with SigLIP (sigmoid loss over all pairs): HF Trainer, bf16, two learning rates, retrieval at the end."""

import os
import tempfile

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import (
    SiglipConfig,
    SiglipModel,
    SiglipTextConfig,
    SiglipVisionConfig,
    Trainer,
    TrainingArguments,
    set_seed,
)

BATCH = int(os.environ.get("BATCH", "160"))
STEPS = int(os.environ.get("STEPS", "40"))
IMAGE, WORDS, VOCAB = 192, 48, 20_000
VISION = dict(hidden_size=512, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=8)
TEXT = dict(hidden_size=512, intermediate_size=2048, num_hidden_layers=8, num_attention_heads=8)


class Products(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.kind = torch.randint(0, 500, (n,), generator=g)
        self.words = torch.randint(600, VOCAB, (n, WORDS), generator=g)
        self.words[:, 0] = 10 + self.kind
        self.seed = seed

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 7_919 + i)
        image = torch.randn(3, IMAGE, IMAGE, generator=g)
        image[:, :16, :16] = self.kind[i] / 250 - 1
        return {"pixel_values": image, "input_ids": self.words[i]}


def collate(rows):
    batch = {k: torch.stack([r[k] for r in rows]) for k in rows[0]}
    batch["return_loss"] = True
    return batch


class TwoRates(Trainer):
    """The text tower learns twice as fast as the rest."""

    def create_optimizer(self, *args, **kwargs):
        if self.optimizer is None:
            text = [p for n, p in self.model.named_parameters() if n.startswith("text_model")]
            rest = [p for n, p in self.model.named_parameters() if not n.startswith("text_model")]
            self.optimizer = torch.optim.AdamW(
                [{"params": text, "lr": 2 * self.args.learning_rate}, {"params": rest}],
                lr=self.args.learning_rate,
                betas=(0.9, 0.95),
                weight_decay=1e-4,
            )
        return self.optimizer


@torch.no_grad()
def recall_at(model, data, k=5, batch=256):
    model.eval()
    device = model.device
    images, texts = [], []
    for rows in DataLoader(data, batch, collate_fn=collate):
        with torch.autocast(device.type, torch.bfloat16):
            out = model(
                pixel_values=rows["pixel_values"].to(device), input_ids=rows["input_ids"].to(device)
            )
        images.append(out.image_embeds.float())
        texts.append(out.text_embeds.float())
    sims = torch.cat(texts) @ torch.cat(images).T
    hit = (
        sims.topk(min(k, len(sims)), 1).indices == torch.arange(len(sims), device=device)[:, None]
    ).any(1)
    return hit.float().mean().item()


def main():
    set_seed(19)
    config = SiglipConfig(
        text_config=SiglipTextConfig(
            vocab_size=VOCAB,
            max_position_embeddings=WORDS,
            pad_token_id=1,
            bos_token_id=2,
            eos_token_id=3,
            projection_size=512,
            **TEXT,
        ).to_dict(),
        vision_config=SiglipVisionConfig(image_size=IMAGE, patch_size=16, **VISION).to_dict(),
    )
    model = SiglipModel(config)
    test = Products(512, 2)
    with tempfile.TemporaryDirectory() as folder:
        trainer = TwoRates(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                max_steps=STEPS,
                per_device_train_batch_size=BATCH,
                per_device_eval_batch_size=256,
                bf16=True,
                learning_rate=3e-4,
                lr_scheduler_type="cosine",
                warmup_steps=4,
                max_grad_norm=1.0,
                eval_strategy="steps",
                eval_steps=20,
                prediction_loss_only=True,
                save_strategy="no",
                dataloader_num_workers=4,
                dataloader_drop_last=True,
                remove_unused_columns=False,
                logging_steps=10,
                report_to="none",
                disable_tqdm=True,
            ),
            data_collator=collate,
            train_dataset=Products(BATCH * STEPS, 1),
            eval_dataset=test,
        )
        trainer.train()
        print("R@5", recall_at(trainer.model, test))


if __name__ == "__main__":
    main()
