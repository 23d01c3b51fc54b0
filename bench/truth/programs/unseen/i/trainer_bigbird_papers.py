"""Classify scientific papers (11 subjects) from their first 3072 tokens with BigBird's sparse attention."""

import torch
from torch.utils.data import Dataset
from transformers import (
    BigBirdConfig,
    BigBirdForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

LENGTH = 3072
SUBJECTS = 11
BATCH = 4
EVAL_BATCH = 6
STEPS = 10
VOCAB = 50358
N_TRAIN = 60
N_EVAL = 20
SHAPE = dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072)


class Papers(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(100, VOCAB, (n, LENGTH), generator=g)
        self.ids[:, 0] = 65
        self.subject = torch.randint(0, SUBJECTS, (n,), generator=g)

    def __len__(self):
        return len(self.subject)

    def __getitem__(self, i):
        return {
            "input_ids": self.ids[i],
            "attention_mask": torch.ones(LENGTH, dtype=torch.long),
            "labels": self.subject[i],
        }


class MemoryCallback(TrainerCallback):
    """Adds the peak of the GPU's memory to the log."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs is not None:
            logs["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        print("evaluated at step", state.global_step, metrics)


def main():
    config = BigBirdConfig(
        vocab_size=VOCAB,
        max_position_embeddings=4096,
        attention_type="block_sparse",
        block_size=64,
        num_random_blocks=3,
        num_labels=SUBJECTS,
        **SHAPE,
    )
    model = BigBirdForSequenceClassification(config)
    args = TrainingArguments(
        output_dir="bigbird_papers",
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=EVAL_BATCH,
        gradient_checkpointing=True,
        optim="adafactor",
        learning_rate=1e-4,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=3,
        tf32=True,
        eval_strategy="steps",
        eval_steps=5,
        save_strategy="no",
        logging_steps=2,
        report_to="none",
        disable_tqdm=True,
        seed=5,
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Papers(N_TRAIN, 1),
        eval_dataset=Papers(N_EVAL, 2),
        callbacks=[MemoryCallback()],
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
