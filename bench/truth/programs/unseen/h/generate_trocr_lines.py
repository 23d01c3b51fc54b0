"""Read lines of handwriting with a TrOCR-large shaped model: greedy for all, beams for the doubtful ones."""

import csv

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import (
    TrOCRConfig,
    TrOCRForCausalLM,
    VisionEncoderDecoderModel,
    ViTConfig,
    ViTModel,
)

IMAGE = 384
HIDDEN = 1024
ENC_LAYERS = 24
DEC_LAYERS = 12
HEADS = 16
VOCAB = 50265
LINES = 120
BATCH = 40
BEAM_BATCH = 16
BEAMS = 4
MAX_NEW = 40
device = torch.device("cuda")


class Lines(Dataset):
    def __len__(self):
        return LINES

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        page = torch.ones(3, IMAGE, IMAGE)
        for _ in range(30):  # strokes
            x, y = torch.randint(0, IMAGE - 6, (2,), generator=g).tolist()
            w, h = torch.randint(2, IMAGE // 8, (2,), generator=g).tolist()
            page[:, y : y + h, x : x + max(1, w // 6)] = 0.1
        return i, (page - 0.5) / 0.5


def build():
    encoder = ViTModel(
        ViTConfig(
            hidden_size=HIDDEN,
            num_hidden_layers=ENC_LAYERS,
            num_attention_heads=HEADS,
            intermediate_size=4 * HIDDEN,
            image_size=IMAGE,
            patch_size=16,
        ),
        add_pooling_layer=False,
    )
    decoder = TrOCRForCausalLM(
        TrOCRConfig(
            vocab_size=VOCAB,
            d_model=HIDDEN,
            decoder_layers=DEC_LAYERS,
            decoder_attention_heads=HEADS,
            decoder_ffn_dim=4 * HIDDEN,
            cross_attention_hidden_size=HIDDEN,
            max_position_embeddings=512,
            is_decoder=True,
            add_cross_attention=True,
        )
    )
    model = VisionEncoderDecoderModel(encoder=encoder, decoder=decoder)
    for c in (model.config, model.generation_config):
        c.decoder_start_token_id = 2
        c.pad_token_id = 1
        c.eos_token_id = 2
    return model


def main():
    torch.manual_seed(8)
    with device:
        model = build()
    model.to(dtype=torch.bfloat16).eval()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f}M parameters")
    loader = DataLoader(Lines(), batch_size=BATCH, num_workers=2)

    doubtful, texts = [], {}
    with torch.inference_mode():
        for index, pixels in loader:
            out = model.generate(
                pixels.to(device, torch.bfloat16),
                max_new_tokens=MAX_NEW,
                num_beams=1,
                do_sample=False,
                return_dict_in_generate=True,
                output_scores=True,
            )
            steps = torch.stack(
                [s.float().log_softmax(-1).max(-1).values for s in out.scores], dim=1
            )
            sure = steps.mean(dim=1)
            for i, row, s in zip(index.tolist(), out.sequences.tolist(), sure.tolist()):
                texts[i] = (row, s)
            worst = sure.argsort()[: len(sure) // 3]
            doubtful += index[worst.cpu()].tolist()
            print(f"greedy: {len(texts)}/{LINES} mean log p {sure.mean().item():.2f}")
        lines = Lines()
        for k in range(0, len(doubtful), BEAM_BATCH):
            picked = doubtful[k : k + BEAM_BATCH]
            pixels = torch.stack([lines[i][1] for i in picked]).to(device, torch.bfloat16)
            out = model.generate(
                pixels,
                max_new_tokens=MAX_NEW,
                num_beams=BEAMS,
                early_stopping=True,
                length_penalty=0.8,
            )
            for i, row in zip(picked, out.tolist()):
                texts[i] = (row, 0.0)
            print(f"beams: {k + len(picked)}/{len(doubtful)}")
    with open("lines.csv", "w", newline="") as f:
        writer = csv.writer(f)
        for i in sorted(texts):
            writer.writerow([i, f"{texts[i][1]:.3f}", " ".join(map(str, texts[i][0]))])


if __name__ == "__main__":
    main()
