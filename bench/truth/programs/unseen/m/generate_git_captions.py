"""Caption product photos with a GIT model in fp16: beam search with five beams over batches of images, caption scores, a short last batch."""

import argparse
import json
import time

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import GitConfig, GitForCausalLM


class Photos(Dataset):
    mean, std = (0.481, 0.458, 0.408), (0.269, 0.261, 0.276)

    def __init__(self, count, side):
        self.count, self.side = count, side

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        image = torch.rand(3, self.side, self.side, generator=g)
        return i, (image - torch.tensor(self.mean)[:, None, None]) / torch.tensor(self.std)[
            :, None, None
        ]


def build(a):
    config = GitConfig(
        vision_config={
            "hidden_size": a.vision_width,
            "intermediate_size": 4 * a.vision_width,
            "num_hidden_layers": a.vision_layers,
            "num_attention_heads": a.vision_width // 64,
            "image_size": a.side,
            "patch_size": 14,
        },
        hidden_size=a.text_width,
        intermediate_size=4 * a.text_width,
        num_hidden_layers=a.text_layers,
        num_attention_heads=a.text_width // 64,
    )
    return GitForCausalLM(config)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--side", type=int, default=224)
    p.add_argument("--vision-width", type=int, default=1024)
    p.add_argument("--vision-layers", type=int, default=24)
    p.add_argument("--text-width", type=int, default=1024)
    p.add_argument("--text-layers", type=int, default=6)
    p.add_argument("--photos", type=int, default=110)
    p.add_argument("--batch", type=int, default=48)
    p.add_argument("--beams", type=int, default=5)
    p.add_argument("--new", type=int, default=24)
    p.add_argument("--prompt", type=int, nargs="*", default=[101, 1037, 6302, 1997])
    a = p.parse_args()
    torch.manual_seed(64)

    dtype = torch.float16 if a.device == "cuda" else torch.float32
    model = build(a).to(a.device, dtype).eval()
    print(f"{model.num_parameters() / 1e6:.0f}M parameters in {dtype}")
    loader = DataLoader(Photos(a.photos, a.side), a.batch, num_workers=4)

    captions, began = {}, time.time()
    for index, pixels in loader:
        prompt = torch.tensor([a.prompt] * len(pixels), device=a.device)
        with torch.inference_mode():
            out = model.generate(
                pixel_values=pixels.to(a.device, dtype),
                input_ids=prompt,
                max_new_tokens=a.new,
                min_new_tokens=5,
                num_beams=a.beams,
                length_penalty=0.8,
                early_stopping=True,
                return_dict_in_generate=True,
                output_scores=True,
            )
        for i, ids, score in zip(
            index.tolist(), out.sequences.tolist(), out.sequences_scores.tolist()
        ):
            captions[i] = {"ids": ids[len(a.prompt) :], "score": round(score, 4)}
        print(f"{len(captions)} captions, {time.time() - began:.1f} s")
    with open("captions.json", "w") as file:
        json.dump(captions, file)
    lengths = [len(c["ids"]) for c in captions.values()]
    print("mean length", sum(lengths) / len(lengths))


if __name__ == "__main__":
    main()
