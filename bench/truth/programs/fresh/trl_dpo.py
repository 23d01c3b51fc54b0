"""Preferences with TRL's DPOTrainer: a policy and its reference, pairs of unlike length."""

import random
import tempfile

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

words = {f"w{i}": i + 3 for i in range(8000)} | {"<pad>": 0, "<s>": 1, "</s>": 2}
inner = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
inner.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
)
g = random.Random(0)


def text(least, most):
    return " ".join(f"w{g.randrange(8000)}" for _ in range(g.randint(least, most)))


rows = [
    {"prompt": text(40, 120), "chosen": text(80, 250), "rejected": text(80, 250)} for _ in range(96)
]
config = LlamaConfig(
    vocab_size=8003,
    hidden_size=768,
    intermediate_size=2048,
    num_hidden_layers=8,
    num_attention_heads=12,
    max_position_embeddings=1024,
)
arguments = DPOConfig(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=8,
    gradient_accumulation_steps=2,
    max_steps=5,
    max_length=384,
    bf16=True,
    logging_steps=1,
    save_strategy="no",
    report_to=[],
)
trainer = DPOTrainer(
    LlamaForCausalLM(config),
    LlamaForCausalLM(config),
    args=arguments,
    train_dataset=Dataset.from_list(rows),
    processing_class=tokenizer,
)
trainer.train()
