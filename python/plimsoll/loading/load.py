"""`plimsoll.load`: a model loaded as precisely as fits, the next smaller way when it does not."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import re
from collections import OrderedDict
from collections.abc import Iterable
from functools import cache
from typing import Any, Callable

from ..arguments import BadType, BadValue, mapping, one_of, optional_size, path, shown, truth
from ..arguments import dtype as floating_type
from ..failure import MISSING_PACKAGE, Failure
from ..memory.clean_up import drop_dead_frames, give_back_caches
from ..memory.gauge import device_of
from ..memory.out_of_memory import recognise
from ..optimizing.checkpointing import checkpoint
from .presets import LADDER, PRESETS, after, most_precise

# What `plimsoll` chose for a model and saved: read, checked, never trusted.

SCHEMA = 1
# A saved choice has some hundred bytes.
LARGEST_FILE = 64 * 1024


def home_folder() -> str:
    return os.environ.get("PLIMSOLL_HOME") or os.path.join(os.path.expanduser("~"), ".plimsoll")


def model_key(model: str) -> str:
    """The file name of a model: readable, safe, and its own by a hash."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", model).lstrip(".-")[:80]
    digest = hashlib.sha256(model.encode()).hexdigest()[:12]
    return f"{readable}-{digest}" if readable else digest


def canonical_model(model: str) -> str:
    """One name for one model: a folder that is there by its real path, however it was written.

    `./my-model`, `my-model/` and `my-model/config.json` are the same model; anything else is a name on a hub.
    """
    folder = os.path.dirname(model) or "." if os.path.basename(model) == "config.json" else model
    return os.path.realpath(folder) if os.path.isdir(folder) else model


def saved_choice(model: str, home: str | None = None) -> dict[str, Any] | None:
    """The saved choice for a model, however its path is written; None when nothing was saved."""
    names = dict.fromkeys((canonical_model(model), model))
    return next(
        (found for found in (_choice_of(name, home) for name in names) if found is not None), None
    )


def _choice_of(model: str, home: str | None) -> dict[str, Any] | None:
    path = os.path.join(home or home_folder(), "quantization", f"{model_key(model)}.json")
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _bad(path, error.strerror or str(error)) from error
    if len(content) > LARGEST_FILE:
        raise _bad(path, f"it has more than {LARGEST_FILE} bytes")
    try:
        choice = json.loads(content)
    except ValueError as error:
        raise _bad(path, "it is not JSON") from error
    wrong = _wrong(choice, model)
    if wrong:
        raise _bad(path, wrong)
    return choice


def _wrong(choice: Any, model: str) -> str:
    if not isinstance(choice, dict) or choice.get("schema") != SCHEMA:
        return f"its schema is not {SCHEMA}"
    if choice.get("model") != model:
        return "it is for another model"
    if choice.get("preset") not in PRESETS:
        return f"preset must be one of {', '.join(PRESETS)}"
    if choice.get("computeDtype") not in ("bfloat16", "float16"):
        return "computeDtype must be bfloat16 or float16"
    memory = choice.get("memory")
    sizes = (
        [*memory.get("gpuBytes", [None]), memory.get("hostBytes")]
        if isinstance(memory, dict)
        else [None]
    )
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        return "memory must hold gpuBytes, a list, and hostBytes, in whole bytes"
    return ""


def _bad(path: str, why: str) -> Failure:
    return Failure(
        "bad-quantization-file",
        f"the saved quantization {path} cannot be used: {why}",
        "delete the file, and save one again: plimsoll plan MODEL --memory 24GiB --save",
    )


# Linear layers whose weights are kept in 8 or 4 bits, in plain PyTorch: any device, no other package.

# NF4 of the QLoRA paper: quantiles of a normal distribution, so that each value is used as often.
NF4 = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
]  # fmt: skip
BLOCK = 64
SCALES_BLOCK = 256


def quantize(
    model: Any,
    bits: int,
    double: bool,
    compute_dtype: Any,
    keep: Iterable[str] = ("lm_head", "embed_out"),
) -> int:
    """Replaces every linear layer but the heads; how many were. Weights are made dense when they are used."""
    from torch import nn

    kept = tuple(keep)
    # Places, not layers: each layer's weights are freed as soon as its successor stands.
    found = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if (isinstance(child, nn.Linear) or type(child).__name__ == "Conv1D") and name not in kept
    ]
    for parent, name in found:
        setattr(parent, name, quantized_linear(getattr(parent, name), bits, double, compute_dtype))
    return len(found)


def quantized_linear(layer: Any, bits: int, double: bool, compute_dtype: Any) -> Any:
    made = _layer_class()(layer, bits, double, compute_dtype)
    return made.to(layer.weight.device) if layer.weight.device.type != "meta" else made


@cache
def _layer_class() -> Any:
    """One class for all layers, made when torch is there. It must not know a layer: it would keep its weights."""
    from torch import nn
    from torch.nn import functional

    class QuantizedLinear(nn.Module):
        """Holds what `pack` made; a dense weight lives only while its layer runs."""

        def __init__(self, layer: Any, bits: int, double: bool, compute_dtype: Any) -> None:
            super().__init__()
            turned = type(layer).__name__ == "Conv1D"
            weight = layer.weight.detach().t() if turned else layer.weight.detach()
            self.out_features, self.in_features = weight.shape
            self.bits = bits
            for name, tensor in pack(weight.contiguous().float(), bits, double).items():
                self.register_buffer(name, tensor)
            bias = getattr(layer, "bias", None)
            self.bias = (
                None
                if bias is None
                else nn.Parameter(bias.detach().to(compute_dtype), requires_grad=False)
            )

        def forward(self, value: Any) -> Any:
            weight = unpack(
                dict(self.named_buffers(recurse=False)),
                self.bits,
                (self.out_features, self.in_features),
            )
            weight = weight.to(value.dtype)
            return functional.linear(
                value, weight, None if self.bias is None else self.bias.to(value.dtype)
            )

        def extra_repr(self) -> str:
            return f"{self.in_features}, {self.out_features}, bits={self.bits}"

    return QuantizedLinear


def pack(weight: Any, bits: int, double: bool) -> dict[str, Any]:
    import torch

    if bits == 8:
        scale = weight.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 127
        return {"packed": (weight / scale).round().to(torch.int8), "scale": scale}
    flat = weight.reshape(-1)
    pad = -flat.numel() % BLOCK
    blocks = torch.nn.functional.pad(flat, (0, pad)).reshape(-1, BLOCK)
    scale = blocks.abs().amax(dim=1).clamp_min(1e-12)
    code = torch.tensor(NF4, device=weight.device)
    middle = (code[1:] + code[:-1]) / 2
    nearest = torch.bucketize(blocks / scale[:, None], middle).to(torch.uint8).reshape(-1)
    packed = nearest[0::2] << 4 | nearest[1::2]
    if not double:
        return {"packed": packed, "scale": scale}
    mean = scale.mean()
    rest = torch.nn.functional.pad(scale - mean, (0, -scale.numel() % SCALES_BLOCK)).reshape(
        -1, SCALES_BLOCK
    )
    outer = rest.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 127
    return {
        "packed": packed,
        "scale": (rest / outer).round().to(torch.int8),
        "outer": outer,
        "mean": mean,
    }


def unpack(parts: dict[str, Any], bits: int, shape: Any) -> Any:
    import torch

    if bits == 8:
        return parts["packed"].float() * parts["scale"]
    packed, scale = parts["packed"], parts["scale"]
    if "outer" in parts:
        scale = (scale.float() * parts["outer"]).reshape(-1) + parts["mean"]
    code = torch.tensor(NF4, device=packed.device)
    values = code[torch.stack((packed >> 4, packed & 15), dim=1).reshape(-1).long()].reshape(
        -1, BLOCK
    )
    dense = (values * scale.reshape(-1)[: values.shape[0], None]).reshape(-1)
    return dense[: shape[0] * shape[1]].reshape(shape)


log = logging.getLogger("plimsoll")

_cache: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
_tokenizers: dict[tuple[Any, ...], Any] = {}


# Names of models as people write them: the same catalogue that the command `plimsoll` uses.

_CATALOGUE = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "models.jsonl"
)


def repository_of(name: str) -> str:
    """The repository on the hub that a name stands for; what is a folder or unknown stays as it is.

    >>> repository_of("llama-3-8b")
    'meta-llama/Meta-Llama-3-8B'
    """
    if os.path.exists(name) or _is_cached(name):
        return name
    return _repositories().get(_key(name), name)


def _is_cached(name: str) -> bool:
    """Whether that very name was downloaded before: then it is loaded so, without a network."""
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    cache = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    return os.path.isdir(os.path.join(cache, "models--" + name.replace("/", "--")))


@functools.lru_cache(maxsize=1)
def _repositories() -> dict[str, str]:
    with open(_CATALOGUE, encoding="utf-8") as file:
        models = [json.loads(line) for line in file if line.strip()]
    found: dict[str, str] = {}
    for model in models:
        names = [model["name"], *model.get("also", [])]
        for name in names:
            # A short name without an organization is not a repository on the hub.
            found.setdefault(_key(name), name if "/" in name else model["name"])
    return found


def _key(name: str) -> str:
    # A point between digits counts: opt-1.3b is not opt-13b.
    own = re.sub(r"(?<!\d)\.|\.(?!\d)|[^a-z0-9.]", "", name.rsplit("/", 1)[-1].lower())
    return re.sub(r"^meta(?=llama)", "", own)


class TooLarge(Failure, MemoryError):
    """Memory that would run out, known beforehand; the next preset is tried as after any other."""

    def __init__(self, fact: str, room: int) -> None:
        step = "raise max_bytes, free memory on the device, or let it fall back (fallback=True)"
        super().__init__("does-not-fit", f"{fact}, and the device has room for {room}", step)


# Layers that do not fit wait on the host, and come to the device for as long as they run.


def place_with_offload(model: Any, device: Any, device_bytes: int) -> int:
    """Moves what fits to the device, the rest stays on the host with hooks; how many blocks stayed."""
    from ..optimizing.checkpointing import containers

    blocks = [block for container in containers(model) for block in container]
    sizes = [_bytes(block) for block in blocks]
    inside = {id(m) for block in blocks for m in block.modules()}
    # What lies beside the blocks stays on the device, and one block at a time visits it.
    fixed = _bytes(model) - sum(sizes) + max(sizes, default=0)
    room = device_bytes - fixed
    if room < 0:
        raise TooLarge(f"with its layers on the host, the model takes {fixed} bytes", device_bytes)
    waiting: list[Any] = []
    for block, size in zip(blocks, sizes):
        room -= size
        # A model that was built on the device leaves it where there is no room.
        block.to(device if room >= 0 else "cpu")
        if room < 0:
            waiting.append(block)
    for module in model.modules():
        if id(module) not in inside:
            for tensor in [*module.parameters(recurse=False), *module.buffers(recurse=False)]:
                tensor.data = tensor.data.to(device)
    for block in waiting:
        block.register_forward_pre_hook(lambda m, args: m.to(device) and None)
        block.register_forward_hook(lambda m, args, out: m.to("cpu") and None)
    return len(waiting)


def _bytes(module: Any) -> int:
    return sum(t.numel() * t.element_size() for t in [*module.parameters(), *module.buffers()])


# A loaded model made ready for training: through adapters where its weights are quantized, else as a whole.


def prepare_for_training(model: Any, bits: int) -> None:
    """Quantized weights cannot be trained: all that was loaded is frozen, and adapters learn (LoRA).

    Activations are computed again in backward. Where nothing below the adapters is trained, gradients reach them
    only if the inputs carry some, so these are asked for.
    """
    if bits < 16:
        for parameter in model.parameters():
            parameter.requires_grad_(False)
    model.train()
    checkpoint(model)
    ask = getattr(model, "enable_input_require_grads", None)
    if ask is not None:
        ask()


def tokenizer_of(source: str, options: dict[str, Any]) -> Any:
    """Of the same repository or folder and revision; without a token for padding it pads with its last one."""
    import transformers

    names = ("revision", "trust_remote_code", "token", "cache_dir", "local_files_only", "subfolder")
    same = {name: options[name] for name in names if name in options}
    made = transformers.AutoTokenizer.from_pretrained(source, **same)
    if made.pad_token is None and made.eos_token is not None:
        made.pad_token = made.eos_token
    return made


def load(
    source: str | Callable[[], Any],
    preset: str = "auto",
    *,
    device: Any = None,
    compute_dtype: Any = None,
    for_training: bool = False,
    tokenizer: bool = False,
    fallback: bool = True,
    cache: bool = True,
    max_bytes: int | None = None,
    home: str | None = None,
    model_class: Any = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """A model, quantized as the preset says; what does not fit falls back to the next preset.

        model = plimsoll.load("./my-model", preset="int8")

    `source` is what transformers' `from_pretrained` takes, or a function that builds a model. `auto` takes
    the choice that plimsoll saved for this model, else the most precise preset that fits. The chosen one
    is `model.plimsoll_preset`. A model that was loaded so before is returned again (`cache=False`: not).
    `options` go to `from_pretrained` as they are, such as `{"revision": "main"}`.

    `for_training` makes it ready to train: checkpointing and inputs that carry gradients; quantized weights are
    frozen, for adapters (LoRA) to learn. `tokenizer=True` answers (model, tokenizer).
    """
    import torch

    _check_source(source)
    one_of("preset", preset, ("auto", *PRESETS))
    truth("for_training", for_training)
    truth("tokenizer", tokenizer)
    truth("fallback", fallback)
    truth("cache", cache)
    mapping("options", options, '{"revision": "main"}')
    if options and callable(source):
        fact = "options are for from_pretrained; source is a function that builds the model"
        raise BadValue(fact, "leave options out")
    if tokenizer and callable(source):
        fact = "tokenizer=True is for a model by name; source is a function that builds the model"
        raise BadValue(fact, "leave tokenizer out")
    floating_type("compute_dtype", compute_dtype)
    optional_size("max_bytes", max_bytes, least=1)
    if home is not None:
        path("home", home, "~/.plimsoll")
    if model_class is not None and not hasattr(model_class, "from_pretrained"):
        fact = f"model_class must be a class with from_pretrained, not {shown(model_class)}"
        raise BadType(fact, "pass transformers.AutoModelForSequenceClassification, or leave it out")
    where = device_of(
        device if device is not None else "cuda" if torch.cuda.is_available() else "cpu",
        any_kind=True,
    )
    if isinstance(source, str):
        source = repository_of(source)
    options = options or {}
    key = _cache_key(
        source,
        preset,
        where,
        compute_dtype,
        fallback,
        max_bytes,
        home,
        model_class,
        for_training,
        options,
    )
    model = _cache.get(key) if cache else None
    if model is None:
        model = _loaded(
            source, preset, where, compute_dtype, fallback, max_bytes, home, model_class, options
        )
        if for_training:
            prepare_for_training(model, PRESETS[model.plimsoll_preset].bits)
        if cache:
            _cache[key] = model
    else:
        _cache.move_to_end(key)
    if not tokenizer:
        return model
    words = _cache_key(source, options)
    if words not in _tokenizers or not cache:
        _tokenizers[words] = tokenizer_of(str(source), options)
    return model, _tokenizers[words]


def _check_source(source: Any) -> None:
    if not isinstance(source, str) and not callable(source):
        fact = (
            f"source must be the name of a model or a function that builds one, not {shown(source)}"
        )
        raise BadType(fact, 'pass a folder ("./my-model"), a name, or a function without arguments')
    if source == "":
        raise BadValue("source must not be empty", 'pass a folder ("./my-model") or a name')


def _loaded(
    source: Any, preset: str, where: Any, compute_dtype: Any, fallback: bool, max_bytes: int | None,
    home: str | None, model_class: Any, options: dict[str, Any],
) -> Any:  # fmt: skip
    import torch

    saved = saved_choice(source, home) if preset == "auto" and isinstance(source, str) else None
    dtype = compute_dtype or getattr(torch, saved["computeDtype"] if saved else "bfloat16")
    build = _builder(source, model_class, options)
    first = saved["preset"] if saved else preset if preset != "auto" else _choose(build, where)
    steps = ["cpu"] if first == "cpu" else after(first) if fallback else [first]
    room = (
        max_bytes if max_bytes is not None else sum(saved["memory"]["gpuBytes"]) if saved else None
    )
    return _first_that_fits(build, steps, where, dtype, room)


def unload(source: Any = None) -> int:
    """Forgets cached models (all, or those of one source) and gives their memory back; how many."""
    if source is not None:
        _check_source(source)
    wanted = canonical_model(repository_of(source)) if isinstance(source, str) else source
    keys = [key for key in _cache if source is None or key[0] == wanted]
    for key in keys:
        del _cache[key]
    for words in [words for words in _tokenizers if source is None or words[0] == wanted]:
        del _tokenizers[words]
    give_back_caches()
    return len(keys)


def _cache_key(source: Any, *asked: Any) -> tuple[Any, ...]:
    """All that was asked for: a model that was loaded in another way, or for less memory, is another."""
    *plain, options = asked
    return (
        canonical_model(source) if isinstance(source, str) else source,
        *(
            one if isinstance(one, (str, int, bool, type, type(None))) else str(one)
            for one in plain
        ),
        # Options are any Python; what they look like tells them apart.
        tuple((name, repr(value)) for name, value in sorted(options.items())),
    )


def _first_that_fits(
    build: Callable[..., Any], steps: Any, where: Any, dtype: Any, room: int | None
) -> Any:
    for number, preset in enumerate(steps):
        try:
            model = _load_as(build, preset, where, dtype, room)
            model.plimsoll_preset = preset
            return model
        except Exception as error:
            found = recognise(error)
            if found is None or number + 1 == len(steps):
                raise
            log.warning(
                "plimsoll: out of memory (%s) while loading as %s; now %s",
                found.kind,
                preset,
                steps[number + 1],
            )
            drop_dead_frames(error)
        # Models that are not in use are the cheapest to give up.
        unload()
    raise AssertionError("a list of presets is never empty")


def _load_as(
    build: Callable[..., Any], preset: str, where: Any, dtype: Any, room: int | None
) -> Any:
    import torch

    facts = PRESETS[preset]
    if preset == "cpu":
        return build(torch.float32).to("cpu").eval()
    model = build(dtype).eval()
    if facts.bits < 16:
        quantize(model, facts.bits, bool(facts.config.get("bnb_4bit_use_double_quant")), dtype)
    held = sum(t.numel() * t.element_size() for t in [*model.parameters(), *model.buffers()])
    if facts.weights == "both":
        budget = room if room is not None else _free(where)
        waiting = place_with_offload(model, where, budget)
        log.info("plimsoll: %d blocks are kept on the host and copied when used", waiting)
        return model
    if room is not None and held > room:
        raise TooLarge(f"the weights take {held} bytes as {preset}", room)
    return model.to(where)


def _builder(source: Any, model_class: Any, options: dict[str, Any]) -> Callable[[Any], Any]:
    if callable(source):
        return lambda dtype: source().to(dtype)
    try:
        import transformers
    except ImportError as error:
        raise Failure(
            "transformers-missing",
            "loading a model by name requires transformers",
            "pip install transformers, or pass a function that builds the model",
            status=MISSING_PACKAGE,
        ) from error
    kind = model_class or transformers.AutoModelForCausalLM

    def build(dtype: Any) -> Any:
        try:
            return kind.from_pretrained(source, dtype=dtype, **options)
        except OSError as error:
            why = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            raise Failure(
                "model-not-loaded",
                f"{shown(source)} could not be loaded: {why}",
                "name a folder with a config.json, or a model of the hub that this machine can reach",
            ) from error

    return build


def _choose(build: Callable[[Any], Any], where: Any) -> str:
    """By the number of parameters, found without memory where the source can be built on `meta`."""
    import torch

    if where.type == "cpu":
        return "cpu"
    try:
        with torch.device("meta"):
            parameters = sum(p.numel() for p in build(torch.bfloat16).parameters())
    except Exception as error:
        log.info(
            "plimsoll: the model's size is not known beforehand (%s); trying %s first",
            error,
            LADDER[0],
        )
        return LADDER[0]
    return most_precise(parameters, _free(where))


def _free(where: Any) -> int:
    from ..memory.gauge import HostGauge, gauge_of

    gauge = gauge_of(device=str(where)) if where.type == "cuda" else HostGauge()
    return max(0, gauge.capacity_bytes() - gauge.used_bytes())
