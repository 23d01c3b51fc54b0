"""`python -m plimsoll_trace.generating`: a model of a config.json that generates text.

A program like any other: `plimsoll_trace --program` runs it on a pretended GPU.
"""

from __future__ import annotations

import argparse

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def main() -> None:
    options = _options()
    config = AutoConfig.from_pretrained(options.config)
    paired = bool(getattr(config, "is_encoder_decoder", False))
    kind = AutoModelForSeq2SeqLM if paired else AutoModelForCausalLM
    model = kind.from_config(config).to(_TYPES[options.precision]).cuda().eval()
    vocabulary = config.get_text_config().vocab_size
    tokens = torch.randint(0, vocabulary, (options.batch, options.prompt)).cuda()
    model.generate(
        tokens,
        attention_mask=torch.ones_like(tokens),
        max_new_tokens=options.new,
        min_new_tokens=options.new,
        do_sample=False,
        num_beams=options.beams,
        pad_token_id=0,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    for name in ("batch", "prompt", "new", "beams"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--precision", choices=sorted(_TYPES), required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
