"""LoRA for BART-large on dialogue summaries: Seq2SeqTrainer, batches padded to the longest, beams at evaluation."""

import random

import numpy as np
import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

VOCAB = 50265
LONGEST = 700
SUMMARY = 70
TRAIN, DEV = 140, 24
BATCH, DEV_BATCH = 10, 12
WIDTH, LAYERS, FFN, HEADS = 1024, 12, 4096, 16


def dialogues(n, seed):
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        words = rng.randint(80, LONGEST - 2)
        short = rng.randint(8, SUMMARY - 2)
        rows.append(
            {
                "input_ids": [0] + [rng.randrange(4, VOCAB) for _ in range(words)] + [2],
                "labels": [0] + [rng.randrange(4, VOCAB) for _ in range(short)] + [2],
            }
        )
    return rows


def pad(sequences, value):
    longest = max(map(len, sequences))
    return torch.tensor([s + [value] * (longest - len(s)) for s in sequences])


def collate(rows):
    ids = pad([r["input_ids"] for r in rows], 1)
    return {
        "input_ids": ids,
        "attention_mask": (ids != 1).long(),
        "labels": pad([r["labels"] for r in rows], -100),
    }


def metrics(pred):
    hyps = np.where(pred.predictions < 0, 1, pred.predictions)
    refs = np.where(pred.label_ids < 0, 1, pred.label_ids)
    f = []
    for h, r in zip(hyps.tolist(), refs.tolist()):
        h, r = {x for x in h if x > 3}, {x for x in r if x > 3}
        f.append(2 * len(h & r) / max(1, len(h) + len(r)))
    return {"f1": float(np.mean(f)), "length": float((hyps > 3).sum(-1).mean())}


def main():
    config = BartConfig(
        vocab_size=VOCAB,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_ffn_dim=FFN,
        decoder_ffn_dim=FFN,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        max_position_embeddings=1024,
    )
    model = BartForConditionalGeneration(config)
    model = get_peft_model(
        model,
        LoraConfig(
            task_type=TaskType.SEQ_2_SEQ_LM,
            r=16,
            lora_alpha=32,
            lora_dropout=0.1,
            target_modules=["q_proj", "v_proj", "fc1", "fc2"],
        ),
    )
    model.print_trainable_parameters()
    args = Seq2SeqTrainingArguments(
        output_dir="bart_dialogues",
        num_train_epochs=1,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=DEV_BATCH,
        learning_rate=1e-3,
        lr_scheduler_type="cosine",
        bf16=True,
        eval_strategy="epoch",
        save_strategy="epoch",
        predict_with_generate=True,
        generation_max_length=50,
        generation_num_beams=4,
        label_names=["labels"],
        remove_unused_columns=False,
        logging_steps=4,
        report_to="none",
        disable_tqdm=True,
        seed=70,
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=args,
        data_collator=collate,
        train_dataset=dialogues(TRAIN, 0),
        eval_dataset=dialogues(DEV, 1),
        compute_metrics=metrics,
    )
    trainer.train()
    print(trainer.state.log_history[-2])
    model.save_pretrained("bart_dialogues/adapter")


if __name__ == "__main__":
    main()
