"""What libraries say when a card is full. Usage: python3 bench/gpu/recovery/provoke.py [--output FILE] [CASE ...].

Each case runs in a process of its own that fills the card itself, so nothing else may use it meanwhile. Takes
about two minutes on an H200. The texts are the ground truth of test/fixtures/out-of-memory-messages.json.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time

import torch

LIMIT_SECONDS = 25
MIB = 2**20


def fill(leave_mib: float) -> None:
    """Takes the card through the driver until so much is left."""
    torch.cuda.init()
    torch.empty(1, device="cuda")
    driver = ctypes.CDLL("libcuda.so.1")
    pointer = ctypes.c_void_p()
    for chunk in (4096 * MIB, 256 * MIB, 16 * MIB, 2 * MIB):
        while torch.cuda.mem_get_info()[0] - chunk >= leave_mib * MIB:
            if driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(chunk)) != 0:
                break


def tensors(*shape, dtype=torch.float32):
    return torch.ones(*shape, device="cuda", dtype=dtype)


def allocator():
    fill(64)
    tensors(1024, 1024, 1024)


def allocator_cap():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(2**30 / total)
    tensors(1024, 1024, 1024)


def expandable():
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    fill(64)
    tensors(1024, 1024, 1024)


def cublas(leave):
    def run():
        a = tensors(512, 512)
        fill(leave)
        a @ a
        torch.cuda.synchronize()

    return run


def cublas_half():
    a = tensors(512, 512, dtype=torch.float16)
    fill(2)
    torch.nn.functional.linear(a, a, a[0])
    torch.cuda.synchronize()


def cudnn(leave):
    def run():
        picture, weight = tensors(8, 64, 64, 64), tensors(64, 64, 3, 3)
        fill(leave)
        torch.nn.functional.conv2d(picture, weight, padding=1)
        torch.cuda.synchronize()

    return run


def cudnn_lstm():
    lstm, data = torch.nn.LSTM(256, 256, 2).cuda(), tensors(64, 32, 256)
    fill(2)
    lstm(data)
    torch.cuda.synchronize()


def solver(name):
    def run():
        a = tensors(600, 600) + torch.eye(600, device="cuda") * 600
        fill(4)
        getattr(torch.linalg, name)(a)
        torch.cuda.synchronize()

    return run


def fft(leave):
    def run():
        a = tensors(1000003)
        fill(leave)
        torch.fft.fft(a)
        torch.cuda.synchronize()

    return run


def sparse():
    a = torch.eye(2000, device="cuda").to_sparse_csr()
    b = tensors(2000, 2000)
    fill(2)
    a @ b
    torch.cuda.synchronize()


def kernel_load():
    a = tensors(1000)
    fill(0)
    for one in ("erfinv", "lgamma", "digamma", "special_i0"):
        getattr(torch, one, getattr(torch.special, one.replace("special_", ""), None))(a)
        torch.cuda.synchronize()


def graph():
    a = tensors(1024, 1024)
    stream = torch.cuda.Stream()
    fill(2)
    with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
        a * 2 + 1


def pinned():
    torch.empty(4 * 2**40, dtype=torch.uint8, pin_memory=True)


def context():
    fill(0)
    # A second context of this card, as another process would make it.
    driver = ctypes.CDLL("libcuda.so.1")
    second = ctypes.c_void_p()
    code = driver.cuCtxCreate_v2(ctypes.byref(second), 0, 0)
    name = ctypes.c_char_p()
    driver.cuGetErrorString(code, ctypes.byref(name))
    raise RuntimeError(f"cuCtxCreate: {code} {name.value!r}")


def nccl(debug):
    def run():
        import torch.distributed as dist

        os.environ.update(
            MASTER_ADDR="127.0.0.1", MASTER_PORT="29571", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0"
        )
        if debug:
            os.environ["NCCL_DEBUG"] = "WARN"
        torch.cuda.set_device(0)
        dist.init_process_group("nccl", device_id=None)
        a = tensors(1024)
        fill(0)
        dist.all_reduce(a)
        torch.cuda.synchronize()

    return run


def triton_kernel():
    import importlib.util
    import tempfile

    text = (
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x, n, B: tl.constexpr):\n"
        "    i = tl.program_id(0) * B + tl.arange(0, B)\n"
        "    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)\n"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(text)
    spec = importlib.util.spec_from_file_location("k", file.name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    a = tensors(4096)
    fill(0)
    module.k[(4,)](a, 4096, 1024)
    torch.cuda.synchronize()


def compiled():
    made = torch.compile(lambda x: torch.sin(x) * torch.cos(x) + x)
    a = tensors(2048, 2048)
    fill(2)
    made(a)
    torch.cuda.synchronize()


def cupy_pool():
    import cupy

    cupy.ones(2**40, dtype="float32")


def cupy_library():
    import cupy

    a = cupy.ones((512, 512), dtype="float32")
    fill(0)
    a @ a
    cupy.cuda.Device().synchronize()


def jax_big():
    import jax.numpy as jnp

    jnp.ones((2**20, 2**20)).block_until_ready()


def numpy_big():
    import numpy

    numpy.ones(2**44)


def attention():
    q = tensors(8, 16, 2048, 64, dtype=torch.float16)
    fill(2)
    torch.nn.functional.scaled_dot_product_attention(q, q, q)
    torch.cuda.synchronize()


def embedding_backward():
    table = torch.nn.Embedding(50000, 768).cuda()
    ids = torch.randint(0, 50000, (64, 512), device="cuda")
    fill(512)
    table(ids).sum().backward()
    torch.cuda.synchronize()


CASES = {
    "allocator": allocator,
    "allocator with a cap": allocator_cap,
    "allocator, expandable segments": expandable,
    "cuBLAS, 0 MiB left": cublas(0),
    "cuBLAS, 16 MiB left": cublas(16),
    "cuBLASLt, 2 MiB left": cublas_half,
    "cuDNN convolution, 0 MiB left": cudnn(0),
    "cuDNN convolution, 16 MiB left": cudnn(16),
    "cuDNN convolution, 64 MiB left": cudnn(64),
    "cuDNN LSTM": cudnn_lstm,
    "cuSOLVER svd": solver("svd"),
    "cuSOLVER eigh": solver("eigh"),
    "cuSOLVER cholesky": solver("cholesky"),
    "MAGMA or cuSOLVER inv": solver("inv"),
    "cuFFT, 2 MiB left": fft(2),
    "cuFFT, 24 MiB left": fft(24),
    "cuSPARSE": sparse,
    "a kernel that is loaded": kernel_load,
    "a CUDA graph": graph,
    "pinned memory": pinned,
    "a second context": context,
    "NCCL": nccl(False),
    "NCCL, warnings on": nccl(True),
    "Triton": triton_kernel,
    "torch.compile": compiled,
    "CuPy's pool": cupy_pool,
    "CuPy's cuBLAS": cupy_library,
    "JAX": jax_big,
    "NumPy": numpy_big,
    "attention": attention,
    "embedding backward": embedding_backward,
}


def describe(error: BaseException) -> dict:
    kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__[:-1]]
    return {"type": kinds[0], "bases": kinds[1:], "text": str(error)[:3000]}


def child(name: str, result: int, errors: int) -> None:
    """One case, in a process that was forked before anything touched the card."""
    os.dup2(errors, 2)
    signal.alarm(LIMIT_SECONDS)
    outcome: dict = {"case": name}
    try:
        CASES[name]()
        outcome["went"] = "well"
    except ImportError as error:
        outcome["missing"] = str(error)
    except BaseException as error:
        outcome["error"] = describe(error)
    try:
        free, total = torch.cuda.mem_get_info() if torch.cuda.is_initialized() else (0, 0)
        outcome["freeBytes"], outcome["totalBytes"] = free, total
        outcome["allocatedBytes"] = torch.cuda.memory_allocated()
    except BaseException as error:
        outcome["cannotLook"] = describe(error)
    os.write(result, json.dumps(outcome).encode())
    os._exit(0)


def run(name: str, errors_file: str) -> dict:
    read, write = os.pipe()
    with open(errors_file, "wb") as errors:
        pid = os.fork()
        if pid == 0:
            os.close(read)
            child(name, write, errors.fileno())
        os.close(write)
        parts = []
        while True:
            part = os.read(read, 65536)
            if not part:
                break
            parts.append(part)
        os.close(read)
        _, status = os.waitpid(pid, 0)
    with open(errors_file, "rb") as errors:
        said = errors.read()[-3000:].decode(errors="replace")
    outcome = (
        json.loads(b"".join(parts))
        if parts
        else {"case": name, "died": os.waitstatus_to_exitcode(status)}
    )
    return {**outcome, "stderr": said}


def main() -> None:
    arguments = sys.argv[1:]
    output = arguments[arguments.index("--output") + 1] if "--output" in arguments else None
    wanted = [name for name in arguments if name in CASES] or list(CASES)
    found = []
    for name in wanted:
        begin = time.perf_counter()
        outcome = run(name, "/tmp/provoke-stderr")
        outcome["seconds"] = round(time.perf_counter() - begin, 1)
        found.append(outcome)
        said = (
            outcome.get("error", {}).get("text")
            or outcome.get("missing")
            or outcome.get("went")
            or f"died {outcome.get('died')}"
        )
        print(
            f"{name} ({outcome['seconds']} s)\n    {outcome.get('error', {}).get('type', '')}: {said[:300]!r}",
            flush=True,
        )
        if output:
            with open(output, "w", encoding="utf-8") as file:
                json.dump(
                    {"torch": torch.__version__, "cuda": torch.version.cuda, "cases": found},
                    file,
                    indent=1,
                )


if __name__ == "__main__":
    main()
