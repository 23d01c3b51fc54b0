"""Summaries with T5 by the Seq2SeqTrainer: bf16, accumulation, checkpointing, generation at the end of each epoch."""

import torch
from tokenizers import Tokenizer, models
from torch.utils.data import Dataset
from transformers import (
    DataCollatorForSeq2Seq,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
)  # fmt: skip

tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel({"<pad>": 0, "</s>": 1}, unk_token="<pad>")),
    pad_token="<pad>",
    eos_token="</s>",
)


class Articles(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return {
            "input_ids": torch.randint(3, 8000, (384,), generator=g).tolist(),
            "labels": torch.randint(3, 8000, (64,), generator=g).tolist(),
        }


model = T5ForConditionalGeneration(
    T5Config(
        vocab_size=8064,
        d_model=512,
        d_kv=64,
        d_ff=1024,
        num_layers=6,
        num_heads=8,
        feed_forward_proj="gated-gelu",
        decoder_start_token_id=0,
    )
)
args = Seq2SeqTrainingArguments(
    output_dir="t5",
    per_device_train_batch_size=16,
    per_device_eval_batch_size=24,
    gradient_accumulation_steps=2,
    num_train_epochs=2,
    learning_rate=3e-4,
    bf16=True,
    gradient_checkpointing=True,
    predict_with_generate=True,
    generation_max_length=32,
    generation_num_beams=2,
    eval_strategy="epoch",
    save_strategy="epoch",
    optim="adafactor",
    report_to="none",
)
trainer = Seq2SeqTrainer(
    model=model,
    args=args,
    train_dataset=Articles(192),
    eval_dataset=Articles(48),
    data_collator=DataCollatorForSeq2Seq(tokenizer, model),
    compute_metrics=lambda p: {"n": float(len(p.predictions))},
)
trainer.train()
