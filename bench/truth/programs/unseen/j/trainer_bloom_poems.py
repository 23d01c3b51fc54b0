"""Pretrain a BLOOM-style (ALiBi) language model on poems of very different lengths.

Every batch is padded to its own longest poem, four batches make an update.
"""

import logging

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset
from transformers import BloomConfig, BloomForCausalLM, Trainer, TrainingArguments, set_seed

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
log = logging.getLogger("poems")

VOCAB_SIZE = 250880
HIDDEN = 1024
LAYERS = 16
HEADS = 16
LONGEST = 640
POEMS = 400
BATCH_SIZE = 6
ACCUMULATE = 4
UPDATES = 10
PAD = 3


class PoemDataset(Dataset):
    def __init__(self, n, shortest=48, longest=LONGEST, seed=0):
        gen = torch.Generator().manual_seed(seed)
        lengths = torch.randint(shortest, longest + 1, (n,), generator=gen).tolist()
        self.poems = [torch.randint(4, VOCAB_SIZE, (k,), generator=gen) for k in lengths]

    def __len__(self):
        return len(self.poems)

    def __getitem__(self, index):
        return {"input_ids": self.poems[index]}


def pad_to_longest(examples):
    rows = [e["input_ids"] for e in examples]
    input_ids = pad_sequence(rows, batch_first=True, padding_value=PAD)
    labels = pad_sequence(rows, batch_first=True, padding_value=-100)
    return {
        "input_ids": input_ids,
        "attention_mask": (labels != -100).long(),
        "labels": labels,
    }


def build_model():
    config = BloomConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=HIDDEN,
        n_layer=LAYERS,
        n_head=HEADS,
        hidden_dropout=0.1,
        attention_dropout=0.0,
        use_cache=False,
        pad_token_id=PAD,
        bos_token_id=1,
        eos_token_id=2,
    )
    return BloomForCausalLM(config)


def main():
    set_seed(31)
    model = build_model()
    log.info("parameters: %.1fM", sum(p.numel() for p in model.parameters()) / 1e6)
    arguments = TrainingArguments(
        output_dir="out_bloom_poems",
        max_steps=UPDATES,
        per_device_train_batch_size=BATCH_SIZE,
        gradient_accumulation_steps=ACCUMULATE,
        learning_rate=3e-4,
        weight_decay=0.1,
        warmup_steps=2,
        bf16=True,
        logging_steps=2,
        save_strategy="no",
        report_to="none",
        seed=31,
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=PoemDataset(POEMS),
        data_collator=pad_to_longest,
    )
    result = trainer.train()
    log.info("final loss %.3f", result.training_loss)
    if torch.cuda.is_available():
        log.info("peak %.2f GiB", torch.cuda.max_memory_allocated() / 2**30)


if __name__ == "__main__":
    main()
