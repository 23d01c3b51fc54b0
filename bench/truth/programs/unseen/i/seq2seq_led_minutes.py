"""Summarise meeting transcripts (4096 tokens) with LED, gradient checkpointing and global attention on <s>."""

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    LEDConfig,
    LEDForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

TRANSCRIPT = 4096
MINUTES = 160
VOCAB = 50265
WINDOW = 512
BATCH = 2
EVAL_BATCH = 4
STEPS = 8
N_TRAIN, N_EVAL = 24, 8
SHAPE = dict(
    d_model=768,
    encoder_layers=6,
    decoder_layers=6,
    encoder_ffn_dim=3072,
    decoder_ffn_dim=3072,
    encoder_attention_heads=12,
    decoder_attention_heads=12,
)


class Meetings(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.source = rng.integers(4, VOCAB, size=(n, TRANSCRIPT))
        self.target = rng.integers(4, VOCAB, size=(n, MINUTES))
        self.source[:, 0] = 0
        self.target[:, -1] = 2

    def __len__(self):
        return len(self.source)

    def __getitem__(self, i):
        global_mask = torch.zeros(TRANSCRIPT, dtype=torch.long)
        global_mask[0] = 1
        return {
            "input_ids": torch.from_numpy(self.source[i]),
            "attention_mask": torch.ones(TRANSCRIPT, dtype=torch.long),
            "global_attention_mask": global_mask,
            "labels": torch.from_numpy(self.target[i]),
        }


def length_and_overlap(pred):
    hyp = np.where(pred.predictions < 0, 1, pred.predictions)
    overlap = [
        len(set(h) & set(r)) / len(set(r)) for h, r in zip(hyp.tolist(), pred.label_ids.tolist())
    ]
    return {"overlap": float(np.mean(overlap)), "gen_len": float((hyp > 2).sum(-1).mean())}


def main():
    torch.manual_seed(0)
    config = LEDConfig(
        vocab_size=VOCAB,
        max_encoder_position_embeddings=TRANSCRIPT,
        max_decoder_position_embeddings=1024,
        attention_window=WINDOW,
        **SHAPE,
    )
    model = LEDForConditionalGeneration(config)
    model.generation_config.num_beams = 2
    model.generation_config.max_length = 64
    args = Seq2SeqTrainingArguments(
        output_dir="led_minutes",
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=EVAL_BATCH,
        gradient_accumulation_steps=2,
        gradient_checkpointing=True,
        learning_rate=5e-5,
        warmup_steps=2,
        bf16=True,
        predict_with_generate=True,
        generation_max_length=64,
        generation_num_beams=2,
        eval_strategy="steps",
        eval_steps=8,
        save_strategy="no",
        logging_steps=2,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=args,
        train_dataset=Meetings(N_TRAIN, 0),
        eval_dataset=Meetings(N_EVAL, 1),
        compute_metrics=length_and_overlap,
    )
    trainer.train()
    trainer.save_model("led_minutes/last")
    print("done", trainer.state.log_history[-2:])


if __name__ == "__main__":
    main()
