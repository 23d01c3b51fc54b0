import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM

p = argparse.ArgumentParser()
p.add_argument("--batch", type=int, default=8)
p.add_argument("--prompt", type=int, default=512)
p.add_argument("--new", type=int, default=256)
p.add_argument("--beams", type=int, default=1)
a = p.parse_args()
cfg = LlamaConfig(
    hidden_size=2048,
    num_hidden_layers=16,
    num_attention_heads=32,
    num_key_value_heads=8,
    intermediate_size=8192,
    vocab_size=128256,
    tie_word_embeddings=True,
)
model = LlamaForCausalLM(cfg).to(torch.bfloat16).cuda().eval()
ids = torch.randint(0, 128000, (a.batch, a.prompt)).cuda()
out = model.generate(
    ids,
    attention_mask=torch.ones_like(ids),
    max_new_tokens=a.new,
    min_new_tokens=a.new,
    do_sample=False,
    num_beams=a.beams,
    pad_token_id=0,
)
print(out.shape)
