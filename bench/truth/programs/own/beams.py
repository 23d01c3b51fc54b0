"""T5 summaries by beam search, and by sampling."""

import argparse

import torch
from transformers import T5Config, T5ForConditionalGeneration

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--beams", type=int, default=4)
parser.add_argument("--new", type=int, default=64)
args = parser.parse_args()

config = T5Config(d_model=768, d_ff=3072, num_layers=12, num_heads=12, decoder_start_token_id=0)
model = T5ForConditionalGeneration(config).half().to("cuda").eval()
for _ in range(2):
    ids = torch.randint(2, 32000, (args.batch, 512), device="cuda")
    with torch.inference_mode():
        out = model.generate(
            ids,
            num_beams=args.beams,
            min_new_tokens=args.new,
            max_new_tokens=args.new,
            early_stopping=True,
        )
    print(out[:, :5].tolist(), out.shape)
