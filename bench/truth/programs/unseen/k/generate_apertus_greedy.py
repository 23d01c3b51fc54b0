"""Greedy continuation of meeting minutes with an Apertus-like model in bf16; batches of growing size, left padding."""

import time

import torch
from transformers import ApertusConfig, ApertusForCausalLM

VOCAB = 131072
PROMPT = 1536
NEW_TOKENS = 96
BATCHES = (4, 8, 16, 24)

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(100)

config = ApertusConfig(
    vocab_size=VOCAB,
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=18,
    num_attention_heads=16,
    num_key_value_heads=8,
    max_position_embeddings=4096,
    pad_token_id=3,
    bos_token_id=1,
    eos_token_id=2,
)
torch.set_default_dtype(torch.bfloat16)
with device:
    model = ApertusForCausalLM(config).eval()
torch.set_default_dtype(torch.float32)
print(f"{sum(p.numel() for p in model.parameters()) / 1e9:.2f} billion weights")

for size in BATCHES:
    lengths = torch.randint(PROMPT // 2, PROMPT + 1, (size,))
    lengths[0] = PROMPT
    ids = torch.randint(10, VOCAB, (size, PROMPT))
    mask = (torch.arange(PROMPT)[None] >= PROMPT - lengths[:, None]).long()
    ids = torch.where(mask.bool(), ids, torch.tensor(3))
    begin = time.time()
    with torch.no_grad():
        out = model.generate(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            max_new_tokens=NEW_TOKENS,
            min_new_tokens=NEW_TOKENS,
            do_sample=False,
        )
    rate = size * (out.shape[1] - PROMPT) / (time.time() - begin)
    print(f"batch {size}: {tuple(out.shape)}, {rate:.0f} tokens/s")
