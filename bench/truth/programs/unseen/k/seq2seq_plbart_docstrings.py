"""Write docstrings for functions: PLBart with Seq2SeqTrainer, fp16, label smoothing, evaluation by beam search, generated lengths as a metric."""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset
from transformers import (
    PLBartConfig,
    PLBartForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)


@dataclass
class Run:
    vocab: int = 50005
    functions: int = 384
    held_out: int = 48
    code_tokens: tuple = (100, 480)
    doc_tokens: tuple = (12, 96)
    batch: int = 16
    eval_batch: int = 24
    steps: int = 20
    beams: int = 4
    language: int = 50003


class Functions(Dataset):
    def __init__(self, run, n, seed):
        g = torch.Generator().manual_seed(seed)

        def text(bounds):
            k = int(torch.randint(bounds[0], bounds[1], (1,), generator=g))
            body = torch.randint(5, run.vocab - 10, (k,), generator=g)
            return torch.cat([body, torch.tensor([2, run.language])])

        self.pairs = [(text(run.code_tokens), text(run.doc_tokens)) for _ in range(n)]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        code, doc = self.pairs[i]
        return {"input_ids": code, "labels": doc}


class Collate:
    def __init__(self, model):
        self.model = model

    def __call__(self, rows):
        ids = pad_sequence([r["input_ids"] for r in rows], batch_first=True, padding_value=1)
        labels = pad_sequence([r["labels"] for r in rows], batch_first=True, padding_value=-100)
        return {
            "input_ids": ids,
            "attention_mask": (ids != 1).long(),
            "labels": labels,
            "decoder_input_ids": self.model.prepare_decoder_input_ids_from_labels(labels),
        }


def lengths(prediction):
    ids = prediction.predictions
    return {"mean_length": float(np.mean((ids > 1).sum(-1)))}


def main():
    run = Run()
    set_seed(66)
    model = PLBartForConditionalGeneration(PLBartConfig(vocab_size=run.vocab))
    model.generation_config.decoder_start_token_id = run.language
    args = Seq2SeqTrainingArguments(
        output_dir="plbart_docstrings",
        max_steps=run.steps,
        per_device_train_batch_size=run.batch,
        per_device_eval_batch_size=run.eval_batch,
        learning_rate=1e-4,
        lr_scheduler_type="linear",
        label_smoothing_factor=0.1,
        fp16=True,
        predict_with_generate=True,
        generation_num_beams=run.beams,
        generation_max_length=72,
        eval_strategy="steps",
        eval_steps=run.steps,
        logging_steps=5,
        save_strategy="no",
        report_to="none",
        seed=66,
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=args,
        train_dataset=Functions(run, run.functions, 1),
        eval_dataset=Functions(run, run.held_out, 2),
        data_collator=Collate(model),
        compute_metrics=lengths,
    )
    trainer.train()
    for row in trainer.state.log_history:
        if "eval_mean_length" in row:
            print(row["step"], row["eval_mean_length"], row["eval_loss"])


if __name__ == "__main__":
    main()
