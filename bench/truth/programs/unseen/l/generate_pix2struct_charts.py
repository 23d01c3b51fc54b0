"""Read charts with Pix2Struct: flattened patches in, greedy text out, over a DataLoader; fp16 weights, exact-match and speed are printed."""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import Pix2StructConfig, Pix2StructForConditionalGeneration


class Charts(Dataset):
    """Row, column and pixels for each 16 x 16 patch, as the processor would give them."""

    def __init__(self, n, patches, seed=0):
        self.n, self.patches, self.seed = n, patches, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        side = int(self.patches**0.5)
        used = side * side
        rows = torch.arange(used).div(side, rounding_mode="floor") + 1
        cols = torch.arange(used) % side + 1
        flat = torch.zeros(self.patches, 2 + 768)
        flat[:used, 0], flat[:used, 1] = rows.float(), cols.float()
        flat[:used, 2:] = torch.randn(used, 768, generator=g)
        mask = torch.zeros(self.patches)
        mask[:used] = 1
        return flat, mask, torch.randint(3, 500, (12,), generator=g)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hidden", type=int, default=1024)
    ap.add_argument("--layers", type=int, default=14)
    ap.add_argument("--vocab", type=int, default=50_244)
    ap.add_argument("--patches", type=int, default=1536)
    ap.add_argument("--charts", type=int, default=64)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--new-tokens", type=int, default=64)
    args = ap.parse_args()
    torch.manual_seed(6)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    heads = args.hidden // 64
    config = Pix2StructConfig(
        text_config=dict(
            hidden_size=args.hidden,
            d_ff=2 * args.hidden,
            num_layers=args.layers,
            num_heads=heads,
            vocab_size=args.vocab,
            use_cache=True,
        ),
        vision_config=dict(
            hidden_size=args.hidden,
            d_ff=2 * args.hidden,
            num_hidden_layers=args.layers,
            num_attention_heads=heads,
            seq_len=args.patches,
            initializer_range=0.02,
        ),
    )
    model = Pix2StructForConditionalGeneration(config).to(device, dtype).eval()
    loader = DataLoader(Charts(args.charts, args.patches), batch_size=args.batch)
    right = seen = tokens = 0
    start = time.time()
    with torch.no_grad():
        for flat, mask, answer in loader:
            out = model.generate(
                flattened_patches=flat.to(device, dtype),
                attention_mask=mask.to(device),
                max_new_tokens=args.new_tokens,
                num_beams=1,
                do_sample=False,
            )
            tokens += out.numel()
            guess = out[:, 1:13].cpu()
            right += (guess == answer[:, : guess.shape[1]]).all(1).sum().item()
            seen += len(answer)
    print(f"{seen} charts, {right} exact, {tokens / (time.time() - start):.0f} tokens/s")


if __name__ == "__main__":
    main()
