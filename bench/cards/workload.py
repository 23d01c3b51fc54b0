"""The training runs that xMem's authors published (arXiv 2510.21048), as workloads."""

from contextlib import nullcontext

import torch

# Defaults of torchvision (1000 classes), but 10 classes where the runs built the class itself.
CNN = {
    "VGG11": "vgg11",
    "VGG16": "vgg16",
    "VGG19": "vgg19",
    "ResNet50": "resnet50",
    "ResNet101": "resnet101",
    "ResNet152": "resnet152",
    "MobileNetV2": "mobilenet_v2",
    "ConvNeXtTiny": "convnext_tiny",
    "ConvNeXtBase": "convnext_base",
    "RegNetX400MF": "regnet_x_400mf",
    "RegNetY400MF": "regnet_y_400mf",
}
GPT = {"model_type": "gpt2", "vocab_size": 50257, "n_embd": 768, "n_head": 12}
OPT = {
    "model_type": "opt",
    "vocab_size": 50272,
    "max_position_embeddings": 2048,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_function": "relu",
    "layerdrop": 0.0,
}
TEXT = {
    "gpt2": dict(GPT, n_layer=12, n_positions=1024),
    "distilgpt2": dict(GPT, n_layer=6, n_positions=1024),
    "cerebras-111m": dict(
        GPT,
        n_layer=10,
        n_positions=2048,
        n_inner=3072,
        activation_function="gelu",
        attn_pdrop=0.0,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
    ),
    "opt-125m": dict(
        OPT,
        hidden_size=768,
        num_hidden_layers=12,
        ffn_dim=3072,
        num_attention_heads=12,
        do_layer_norm_before=True,
        word_embed_proj_dim=768,
    ),
    "opt-350m": dict(
        OPT,
        hidden_size=1024,
        num_hidden_layers=24,
        ffn_dim=4096,
        num_attention_heads=16,
        do_layer_norm_before=False,
        word_embed_proj_dim=512,
    ),
    "gpt-neo-125m": {
        "model_type": "gpt_neo",
        "vocab_size": 50257,
        "hidden_size": 768,
        "num_layers": 12,
        "num_heads": 12,
        "max_position_embeddings": 2048,
        "window_size": 256,
        "attention_types": [[["global", "local"], 6]],
        "embed_dropout": 0.0,
        "attention_dropout": 0.0,
        "resid_dropout": 0.0,
        "activation_function": "gelu_new",
    },
    "t5-small": {
        "model_type": "t5",
        "vocab_size": 32128,
        "d_model": 512,
        "d_kv": 64,
        "d_ff": 2048,
        "num_layers": 6,
        "num_decoder_layers": 6,
        "num_heads": 8,
        "dropout_rate": 0.1,
        "feed_forward_proj": "relu",
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 1,
    },
    # These ran on an A100.
    "deepseek-r1-qwen-1.5b": {
        "model_type": "qwen2",
        "vocab_size": 151936,
        "hidden_size": 1536,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "intermediate_size": 8960,
        "tie_word_embeddings": False,
        "max_position_embeddings": 131072,
    },
    "qwen3-4b": {
        "model_type": "qwen3",
        "vocab_size": 151936,
        "hidden_size": 2560,
        "num_hidden_layers": 36,
        "head_dim": 128,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 9728,
        "tie_word_embeddings": True,
        "max_position_embeddings": 40960,
    },
    "llama-3.2-3b": {
        "model_type": "llama",
        "vocab_size": 128256,
        "hidden_size": 3072,
        "num_hidden_layers": 28,
        "head_dim": 128,
        "num_attention_heads": 24,
        "num_key_value_heads": 8,
        "intermediate_size": 8192,
        "tie_word_embeddings": True,
        "max_position_embeddings": 131072,
    },
}

LARGE = ("deepseek-r1-qwen-1.5b", "qwen3-4b", "llama-3.2-3b")


def cnn(name):
    import torchvision

    if name == "MnasNet":
        return torchvision.models.MNASNet(alpha=1.0, num_classes=10)
    if name.startswith("MobeNetV3"):
        from torchvision.models.mobilenetv3 import _mobilenet_v3_conf

        arch = "mobilenet_v3_" + name.removeprefix("MobeNetV3").lower()
        setting, last = _mobilenet_v3_conf(arch)
        return torchvision.models.MobileNetV3(setting, last_channel=last, num_classes=10)
    return torchvision.models.get_model(CNN[name], weights=None)


def text(name):
    import transformers

    values = dict(TEXT[name])
    config = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
    auto = (
        transformers.AutoModelForSeq2SeqLM
        if name.startswith("t5")
        else transformers.AutoModelForCausalLM
    )
    return auto.from_config(config)


def workload(model="VGG16", batch=200, seq=128):
    is_cnn = model not in TEXT
    # Built on the host and then moved, as the published runs did; but a host may not hold the largest.
    with nullcontext() if model in LARGE else torch.device("cpu"):
        net = cnn(model) if is_cnn else text(model)
    net = net.to("cuda")
    net.train()
    if is_cnn:
        criterion = torch.nn.CrossEntropyLoss()

        def loss(module, given):
            outputs = module(given[0])
            return criterion(outputs, given[1]), outputs

        return {
            "model": net,
            "batch": lambda: (torch.empty(batch, 3, 86, 86), torch.zeros(batch, dtype=torch.long)),
            "loss": loss,
        }

    def tokens():
        return {
            name: torch.ones(batch, seq, dtype=torch.long)
            for name in ("input_ids", "attention_mask", "labels")
        }

    def loss(module, given):
        outputs = module(**given)
        return outputs.loss, outputs

    return {"model": net, "batch": tokens, "loss": loss}
