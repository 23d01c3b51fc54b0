"""A program that knows nothing of Plimsoll: the Trainer of transformers, GPT-2, accumulation over two batches."""

import json
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.set_num_threads(1)
torch.manual_seed(0)
LENGTH, WORDS = 128, 8000


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, i):
        ids = torch.randint(3, WORDS, (LENGTH,), generator=torch.Generator().manual_seed(i))
        labels = ids.clone()
        labels[LENGTH // 2 + i % 64 :] = -100
        return {"input_ids": ids, "labels": labels}


config = GPT2Config(
    vocab_size=WORDS,
    n_embd=32,
    n_layer=2,
    n_head=2,
    n_positions=LENGTH,
    bos_token_id=1,
    eos_token_id=2,
    resid_pdrop=0.0,
    embd_pdrop=0.0,
    attn_pdrop=0.0,
)
arguments = TrainingArguments(
    output_dir=sys.argv[1],
    per_device_train_batch_size=48,
    per_device_eval_batch_size=96,
    gradient_accumulation_steps=2,
    num_train_epochs=2,
    logging_steps=1,
    learning_rate=1e-3,
    report_to=[],
    save_strategy="no",
    use_cpu=True,
    disable_tqdm=True,
)
trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Texts(), eval_dataset=Texts())
trainer.train()
evaluated = trainer.evaluate()
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
print(json.dumps({"losses": losses, "evaluated": evaluated["eval_loss"]}))
