"""DoRA on a small Qwen that grades reviews: the Trainer, then the adapter loaded into a fresh model and merged."""

import numpy as np
import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from transformers import (
    Qwen2Config,
    Qwen2ForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

STARS = 5
LONGEST = 320
ROWS, EVAL_ROWS = 768, 256
BATCH = 16
MODEL = {
    "vocab_size": 151936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
}


class Reviews(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        lengths = np.clip(rng.gamma(3.0, 50.0, count).astype(int), 8, LONGEST)
        self.rows = [rng.integers(10, MODEL["vocab_size"], n).tolist() for n in lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "label": self.rows[i][0] % STARS}


def collate(rows, multiple=16):
    longest = max(len(r["input_ids"]) for r in rows)
    longest = (longest + multiple - 1) // multiple * multiple
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, r in enumerate(rows):
        ids[i, : len(r["input_ids"])] = torch.tensor(r["input_ids"])
    labels = torch.tensor([r["label"] for r in rows])
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": labels}


def base_model():
    set_seed(1)
    config = Qwen2Config(**MODEL, num_labels=STARS, pad_token_id=0, use_cache=False)
    return Qwen2ForSequenceClassification(config)


def metrics(p):
    logits = p.predictions[0] if isinstance(p.predictions, tuple) else p.predictions
    return {"accuracy": float((logits.argmax(-1) == p.label_ids).mean())}


def main():
    model = get_peft_model(
        base_model(),
        LoraConfig(
            task_type=TaskType.SEQ_CLS,
            r=8,
            lora_alpha=16,
            lora_dropout=0.1,
            use_dora=True,
            target_modules=["q_proj", "v_proj"],
            modules_to_save=["score"],
        ),
    )
    model.print_trainable_parameters()
    args = TrainingArguments(
        output_dir="reviews",
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=2 * BATCH,
        num_train_epochs=1,
        learning_rate=3e-4,
        bf16=True,
        eval_strategy="steps",
        eval_steps=24,
        save_strategy="no",
        logging_steps=8,
        dataloader_num_workers=2,
        remove_unused_columns=False,
        label_names=["labels"],
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Reviews(ROWS, 0),
        eval_dataset=Reviews(EVAL_ROWS, 1),
        data_collator=collate,
        compute_metrics=metrics,
    )
    trainer.train()
    model.save_pretrained("reviews/adapter")
    device = trainer.args.device

    fresh = PeftModel.from_pretrained(base_model(), "reviews/adapter")
    merged = fresh.merge_and_unload().to(device).eval()
    test = torch.utils.data.DataLoader(Reviews(EVAL_ROWS, 2), 8 * BATCH, collate_fn=collate)
    right = total = 0
    with torch.no_grad():
        for batch in test:
            batch = {k: v.to(device) for k, v in batch.items()}
            logits = merged(**batch).logits
            right += (logits.argmax(-1) == batch["labels"]).sum().item()
            total += len(logits)
    print(f"merged: {right / total:.3f}")


if __name__ == "__main__":
    main()
