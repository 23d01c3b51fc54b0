"""How much memory cuFFT works in, and what PyTorch asks for around it.

    python3 bench/gpu/fourier_transforms.py OUTPUT.json.xz

Asks cuFFT for the plans that PyTorch makes of contiguous tensors, without running them, and writes down of each kind of
line the lengths whose plan takes a work area, with its bytes for 64 lines. Beside them, all that some calls of
`torch.fft` ask the allocator for, in their order.
"""

import argparse
import ctypes
import json
import lzma
import multiprocessing

import torch

COMPLEX = 4
BATCH = 64
MAX_LENGTH = 4608
PROCESSES = 12
# Real, complex, and complex with another dimension after it, of which each length is worked on in one go.
LINES = {
    "r2c": (0, 4, []),
    "c2r": (4, 0, []),
    "c2c": (4, 4, []),
    "strided": (4, 4, [16]),
    "c2c float64": (5, 5, []),
    "r2c float64": (1, 5, []),
}


def library():
    torch.fft.rfft(torch.ones(8, device="cuda"))
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = [line.split()[-1] for line in maps if "libcufft.so" in line]
    return ctypes.CDLL(paths[0])


def work_bytes(cufft, given, made, lengths, batch):
    plan, size = ctypes.c_int(), ctypes.c_size_t()
    if cufft.cufftCreate(ctypes.byref(plan)) != 0:
        return None
    try:
        cufft.cufftSetAutoAllocation(plan, 0)
        n = (ctypes.c_longlong * len(lengths))(*lengths)
        one = ctypes.c_longlong(1)
        executes = given if given >= COMPLEX else made
        status = cufft.cufftXtMakePlanMany(
            plan, len(lengths), n, None, one, one, given, None, one, one, made,
            ctypes.c_longlong(batch), ctypes.byref(size), executes,
        )  # fmt: skip
        return size.value if status == 0 else None
    finally:
        cufft.cufftDestroy(plan)


def lengths_with_area(given):
    """By kind of transform: the lengths whose plan for one dimension takes a work area."""
    first, last = given
    cufft = library()
    found = {name: [] for name in LINES}
    for n in range(first, last):
        for name, (before, after, more) in LINES.items():
            size = work_bytes(cufft, before, after, [n, *more], BATCH)
            if size:
                found[name].append([n, size])
    return found


def calls():
    x = torch.randn(6, 5, 328, 328, device="cuda")
    odd = torch.randn(6, 5, 200, 333, device="cuda")
    line = torch.randn(64, 80000, device="cuda")
    many = torch.randn(6, 5, 40, 42, 44, device="cuda")
    spectrum, odd_spectrum = torch.fft.rfft2(x), torch.fft.rfft2(odd)
    tokens = torch.randn(8, 512, 768, device="cuda")
    wave = torch.fft.rfft(line)
    window = torch.hann_window(1024, device="cuda")
    frames = torch.stft(line, 1024, 256, window=window, return_complex=True)
    fft = torch.fft
    return {
        "rfft2": lambda: fft.rfft2(x),
        "rfft2 odd": lambda: fft.rfft2(odd),
        "rfft2 channels last": lambda: fft.rfft2(x.permute(0, 2, 3, 1), dim=(1, 2)),
        "rfft2 transposed": lambda: fft.rfft2(x.transpose(-1, -2)),
        "rfft2 first dims": lambda: fft.rfft2(x, dim=(0, 1)),
        "rfft2 ortho": lambda: fft.rfft2(x, norm="ortho"),
        "rfft2 sliced": lambda: fft.rfft2(x[..., 3:300, 5:301]),
        "rfft2 padded": lambda: fft.rfft2(x, s=(400, 400)),
        "irfft2": lambda: fft.irfft2(spectrum),
        "irfft2 ortho": lambda: fft.irfft2(spectrum, norm="ortho"),
        "irfft2 odd": lambda: fft.irfft2(odd_spectrum, s=(200, 333)),
        "irfft2 first dims": lambda: fft.irfft2(spectrum, dim=(0, 1)),
        "fft2": lambda: fft.fft2(spectrum),
        "fft2 real": lambda: fft.fft2(x),
        "ifft2": lambda: fft.ifft2(spectrum),
        "fft2 first dims": lambda: fft.fft2(spectrum, dim=(0, 1)),
        "fft over tokens": lambda: fft.fft(fft.fft(tokens, dim=-1), dim=-2).real,
        "fftn of tokens": lambda: fft.fftn(tokens, dim=(1, 2)).real,
        "rfft": lambda: fft.rfft(line),
        "rfft 1024": lambda: fft.rfft(line[:, :65536].reshape(-1, 1024)),
        "rfft inner": lambda: fft.rfft(tokens, dim=1),
        "irfft inner": lambda: fft.irfft(fft.rfft(tokens, dim=1), dim=1),
        "irfft": lambda: fft.irfft(wave),
        "fft": lambda: fft.fft(wave),
        "rfftn": lambda: fft.rfftn(many, dim=(2, 3, 4)),
        "rfftn 4": lambda: fft.rfftn(many, dim=(1, 2, 3, 4)),
        "irfftn": lambda: fft.irfftn(fft.rfftn(many, dim=(2, 3, 4)), dim=(2, 3, 4)),
        "irfftn 4": lambda: fft.irfftn(fft.rfftn(many, dim=(1, 2, 3, 4)), dim=(1, 2, 3, 4)),
        "fftn 4": lambda: fft.fftn(many, dim=(1, 2, 3, 4)),
        "stft": lambda: torch.stft(line, 1024, 256, window=window, return_complex=True),
        "istft": lambda: torch.istft(frames, 1024, 256, window=window),
        "fftshift": lambda: fft.fftshift(spectrum),
    }  # fmt: skip


def asked(call):
    """[bytes, ...]: positive where memory is asked for, negative where it is given back."""
    call()
    torch.cuda.memory._record_memory_history(context=None, max_entries=10_000)
    result = call()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    signs = {"alloc": 1, "free_requested": -1}
    del result
    return [signs[e["action"]] * e["size"] for e in events if e["action"] in signs]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    given = parser.parse_args()
    parts = [(n, min(n + 32, MAX_LENGTH + 1)) for n in range(2, MAX_LENGTH + 1, 32)]
    lines = {name: [] for name in LINES}
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        for found in pool.imap(lengths_with_area, parts):
            for name, lengths in found.items():
                lines[name] += lengths
    answers = {name: asked(call) for name, call in calls().items()}
    found = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "lines": lines,
        "calls": answers,
    }
    with lzma.open(given.output, "wt", encoding="utf-8") as file:
        json.dump(found, file)
    print({name: len(found) for name, found in lines.items()})
    for name, sizes in answers.items():
        print(name, sizes)


if __name__ == "__main__":
    main()
