"""Sequence tagging with RoFormer; rare tags weigh more (own compute_loss); batches of similar length; fp16."""

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import (
    RoFormerConfig,
    RoFormerForTokenClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

N_TAGS = 23
VOCAB = 50000
HIDDEN = 768
N_LAYERS = 12
MAX_LEN = 768
N_SENTENCES = 1200
BATCH = 24
MAX_STEPS = 30


class TaggedSentences(Dataset):
    def __init__(self, n, seed):
        gen = torch.Generator().manual_seed(seed)
        # most sentences are short, a few are very long
        u = torch.rand(n, generator=gen)
        lengths = (16 + (MAX_LEN - 16) * u**3).long().tolist()
        self.rows = []
        for length in lengths:
            self.rows.append(
                {
                    "input_ids": torch.randint(5, VOCAB, (length,), generator=gen).tolist(),
                    "labels": torch.randint(0, N_TAGS, (length,), generator=gen).tolist(),
                    "length": length,
                }
            )

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    width = max(len(r["input_ids"]) for r in rows)
    width = (width + 7) // 8 * 8
    batch = {"input_ids": [], "attention_mask": [], "labels": []}
    for r in rows:
        gap = width - len(r["input_ids"])
        batch["input_ids"].append(r["input_ids"] + [0] * gap)
        batch["attention_mask"].append([1] * len(r["input_ids"]) + [0] * gap)
        batch["labels"].append(r["labels"] + [-100] * gap)
    return {k: torch.tensor(v) for k, v in batch.items()}


class WeightedTrainer(Trainer):
    def __init__(self, *args, tag_weights=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.tag_weights = tag_weights.to(self.args.device)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        criterion = nn.CrossEntropyLoss(weight=self.tag_weights, ignore_index=-100)
        loss = criterion(outputs.logits.float().view(-1, N_TAGS), labels.view(-1))
        return (loss, outputs) if return_outputs else loss


class Report(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % 10 == 0 and torch.cuda.is_available():
            print(
                f"step {state.global_step}: {torch.cuda.max_memory_allocated() / 1e9:.2f} GB at most"
            )


def main():
    set_seed(9)
    model = RoFormerForTokenClassification(
        RoFormerConfig(
            vocab_size=VOCAB,
            hidden_size=HIDDEN,
            num_hidden_layers=N_LAYERS,
            num_attention_heads=12,
            intermediate_size=4 * HIDDEN,
            max_position_embeddings=1536,
            num_labels=N_TAGS,
        )
    )
    weights = torch.ones(N_TAGS)
    weights[0] = 0.2
    args = TrainingArguments(
        output_dir="roformer_tags",
        max_steps=MAX_STEPS,
        per_device_train_batch_size=BATCH,
        train_sampling_strategy="group_by_length",
        length_column_name="length",
        learning_rate=4e-5,
        fp16=True,
        logging_steps=5,
        save_strategy="no",
        report_to="none",
    )
    WeightedTrainer(
        model=model,
        args=args,
        train_dataset=TaggedSentences(N_SENTENCES, 3),
        data_collator=collate,
        callbacks=[Report()],
        tag_weights=weights,
    ).train()


if __name__ == "__main__":
    main()
