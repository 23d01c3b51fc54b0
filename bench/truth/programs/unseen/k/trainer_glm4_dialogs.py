"""Pretrain a small GLM-4 on dialogs with the HF Trainer: gradient checkpointing, bf16, cosine schedule, saves the model in the middle."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    Glm4Config,
    Glm4ForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

VOCAB = 32000
LENGTH = 2048
DIALOGS = 256


class Dialogs(Dataset):
    """Fixed windows; the turns of the user carry no loss."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(3, VOCAB, (n, LENGTH), generator=g)
        self.user_until = torch.randint(LENGTH // 8, LENGTH // 2, (n,), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        labels = self.ids[i].clone()
        labels[: self.user_until[i]] = -100
        return {"input_ids": self.ids[i], "labels": labels}


class Tell(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if torch.cuda.is_available() and logs and "loss" in logs:
            used = torch.cuda.memory_allocated() / 2**30
            print(f"step {state.global_step}: loss {logs['loss']:.3f}, {used:.2f} GiB held")


def main():
    set_seed(404)
    config = Glm4Config(
        vocab_size=VOCAB,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=14,
        num_attention_heads=16,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=LENGTH,
        tie_word_embeddings=True,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = Glm4ForCausalLM(config)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            max_steps=24,
            per_device_train_batch_size=8,
            learning_rate=5e-4,
            lr_scheduler_type="cosine",
            warmup_steps=3,
            weight_decay=0.1,
            max_grad_norm=1.0,
            bf16=True,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            logging_steps=4,
            save_steps=12,
            save_total_limit=1,
            save_only_model=True,
            report_to="none",
            disable_tqdm=True,
            seed=404,
        )
        trainer = Trainer(
            model=model,
            args=args,
            train_dataset=Dialogs(DIALOGS, 1),
            callbacks=[Tell()],
        )
        trainer.train()


if __name__ == "__main__":
    main()
