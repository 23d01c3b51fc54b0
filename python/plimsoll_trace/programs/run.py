"""Runs a program as it is, and records what it would ask the GPU's allocator for."""

from __future__ import annotations

import os
import runpy
import struct
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.utils.checkpoint
from torch.optim import optimizer as optimizers
from torch.overrides import _get_current_function_mode_stack

from plimsoll.failure import Failure

from ..gpu import Gpu
from ..imports.later_parts import imported_later
from ..module_names import ModuleNames
from ..standins.environment import cuda_like
from ..standins.patches import Patches
from . import (
    checkpoints,
    converting,
    graph_order,
    libraries,
    lightning,
    modules,
    parameters,
    random_draws,
    saved_on_host,
    tensor_types,
    weights,
)
from .children import Children
from .compiling import entry as compiling
from .compiling import triton_kernels
from .devices import cuda_api, pretended, streams
from .devices.moves import keep_freed_memory
from .devices.pretended import PretendedDevices
from .devices.streams import Threads
from .distributed import uncounted, wrappers
from .distributed import world as ranks
from .distributed.world import World
from .distributed.wrappers import Wrappers
from .failures import failure_of, in_one_line, print_as_python_does
from .files import calls, outside
from .files.dependencies import Dependencies
from .files.overlay import Overlay, SeenFiles
from .files.view import View
from .launchers import announce, launch_of
from .loops import inner_iterations, loaders, order, reading_ahead, rewritten
from .observer import ProgramObserver
from .passes.repeats import Repeats
from .passes.tokens import Tokens
from .places import Places
from .start import as_main
from .watch import GENERATING, Finished, Watch

_BENCHMARK = (
    "cudnn.benchmark tries all kernels of a convolution, some with far more scratch memory than the one "
    "it takes"
)
_GUESSES_TRIALS = "; where it tries fewer than are counted, the peak is far lower"
_WAS_ENDED = (
    "The program was ended after many operations that showed nothing new: what it does later is not counted, and the "
    "interval reaches up for it."
)
_ENDED_EARLY = (
    "Turns of a loop, or batches, that were alike were left out, and after them the program ended with {}; what it "
    "would have done then is not counted."
)


# A terminal as standard input: programs ask for its size, to draw bars as wide as the screen.

_ROWS, _COLUMNS = 24, 80
# Control-D: a program that reads finds the end of the input, this many times.
_ENDS = b"\x04" * 64


@contextmanager
def as_in_a_terminal() -> Iterator[None]:
    """Traces have no terminal. The program gets a pseudo-terminal, into which nothing is typed."""
    try:
        import fcntl
        import pty
        import termios

        before = os.dup(0)
    except (ImportError, OSError):
        # Not on this system, or started without a standard input.
        yield
        return
    try:
        controller, terminal = pty.openpty()
    except OSError:
        os.close(before)
        yield
        return
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    os.write(controller, _ENDS)
    os.dup2(terminal, 0)
    os.close(terminal)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(controller)


def record(options: Namespace, gpu: Gpu, recording: Any, view: View | None) -> None:
    """Fills the recording with what `train.py --epochs 3`, or `-m package`, does. Whatever lies in the scratch folder
    is removed after it."""
    command = options.program
    names = ModuleNames()
    places = Places(options.cards)
    observer = ProgramObserver(recording.ledger, gpu, names.current, places)
    with ExitStack() as stack:
        overlay = _files(stack, options, view)
        patches = Patches()
        stack.callback(patches.undo)
        _watch_files(stack, patches, options.scratch, overlay, recording)
        _work_less(patches, stack)
        stack.enter_context(cuda_like(observer, names, builds_on_gpu=False))
        parts = _Parts(patches, observer, places, Watch(observer, names), overlay)
        watch, children = parts.watch, parts.children
        _put(parts, _BEFORE_RANKS)
        launch = launch_of(command, places)
        places.cards = max(places.cards, launch.of_a_node)
        announce(launch)
        parts.world = world = ranks.install(patches, observer, launch.processes)
        stack.enter_context(observer)
        devices = parts.devices
        _put(parts, _AFTER_RANKS)
        stack.enter_context(devices)
        stack.callback(compiling.install(patches, observer, places).end)
        try:
            _run(launch.program, watch, Threads(patches, observer, devices, watch))
        except Failure as failure:
            raise children.explain(failure, uses_gpu=watch.steps_seen()) from failure
        recording.ledger.close()
        world.close()
        recording.parallel = world.parallel
        children.check(launch.program, watch.steps_seen(), watch.has_computed())
        if torch.backends.cudnn.benchmark and observer.ledger.names("convolution"):
            observer.facts.benchmark = True
            guesses = observer.facts.guesses_trials
            observer.notes.add(_BENCHMARK + (_GUESSES_TRIALS if guesses else ""))
    recording.notes = sorted({*observer.notes, *children.notes})
    observer.facts.ended, observer.facts.maybe_more_bytes = watch.ended, watch.more_bytes
    recording.facts = observer.facts
    recording.parameters, recording.parameter_bytes = watch.parameters()


def _files(stack: ExitStack, options: Namespace, view: View | None) -> Overlay:
    if view is not None:
        return SeenFiles(view)
    # Its folder goes last, when files are files again.
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="plimsoll-program-"))
    overlay = Overlay(folder, options.scratch)
    stack.callback(overlay.clean)
    return overlay


def _watch_files(
    stack: ExitStack, patches: Patches, scratch: str | None, overlay: Overlay, recording: Any
) -> None:
    """Notes what the answer depends on; without a folder for what forks read, that stays unknown."""
    if scratch is None:
        return
    dependencies = Dependencies(scratch)
    dependencies.watch(stack, patches, overlay.holds)

    def keep() -> None:
        recording.files = dependencies.found()

    stack.callback(keep)


class _Parts:
    """The parts of one trace that replacements work with."""

    world: World

    def __init__(
        self,
        patches: Patches,
        observer: ProgramObserver,
        places: Places,
        watch: Watch,
        overlay: Overlay,
    ) -> None:
        self.patches = patches
        self.observer = observer
        self.places = places
        self.watch = watch
        self.overlay = overlay
        self.children = Children(overlay)
        self.handle = streams.first_of(observer, places.cards)
        self.repeats = Repeats(observer, places, watch)

    @cached_property
    def devices(self) -> PretendedDevices:
        return PretendedDevices(self.places, self.observer)


class Replacement(NamedTuple):
    """One row of the table: the places that a trace changes, the reason, and the function that does it.

    Rows run from the top down, and are undone from the bottom up. Each holds from the oldest torch on that a trace
    accepts: a name that a version does not have is left out by the function. A test compares each row with the places
    that its function really changes.
    """

    # Modules whose names change at once; of torch with the module below it.
    now: tuple[str, ...]
    # Modules whose names change when the program imports them.
    later: tuple[str, ...]
    why: str
    put: Callable[[_Parts], object]
    # Left out where the kernel keeps the files of a program apart.
    only_without_view: bool = False


_BEFORE_RANKS = (
    Replacement(
        (
            "torch",
            "torch._C",
            "torch.accelerator",
            "torch.autograd",
            "torch.backends",
            "torch.cuda",
            "torch.mtia",
            "torch.xpu",
        ),
        (),
        "a card that is not there answers for itself, its streams and its memory",
        lambda p: cuda_api.install_cuda_api(
            p.patches, p.observer, p.places, streams.table(p.handle)
        ),
    ),
    Replacement(
        ("torch", "torch.Tensor", "torch.cuda"),
        (),
        "types such as torch.cuda.FloatTensor make tensors on the card",
        lambda p: tensor_types.install(p.patches),
    ),
    Replacement(
        ("torch.nn",),
        (),
        "the initial values of parameters are not computed",
        lambda p: parameters.install(p.patches, p.places),
    ),
    Replacement(
        ("torch.utils",),
        (),
        "a loader yields its first batches and its last",
        lambda p: loaders.install(p.patches, p.watch),
    ),
    Replacement(
        ("_frozen_importlib_external", "builtins", "runpy"),
        (),
        "loops in the files of the program skip turns that are alike",
        lambda p: rewritten.install(p.patches, p.watch),
    ),
    Replacement(
        ("torch.optim",),
        (),
        "an iteration inside a step of L-BFGS is a turn of a loop",
        lambda p: inner_iterations.install(p.patches, p.watch),
    ),
    Replacement(
        ("torch.autograd",),
        (),
        "nodes that backward makes are numbered as on a card",
        lambda p: graph_order.install(p.patches),
    ),
    Replacement(
        ("numpy", "random"),
        (),
        "the largest of the sizes that a program draws comes second",
        lambda p: random_draws.install(p.patches),
    ),
    Replacement(
        ("builtins", "importlib", "io", "os", "posixpath", "shutil"),
        (),
        "files that the program writes go to a folder of the trace",
        lambda p: calls.install(p.patches, p.overlay),
        only_without_view=True,
    ),
    Replacement(
        ("torch", "torch.storage"),
        (
            "cv2",
            "faiss",
            "h5py",
            "lmdb",
            "pyarrow",
            "safetensors",
            "sentencepiece",
            "soundfile",
            "sqlite3",
            "tokenizers",
            "torch",
            "torchvision",
        ),
        "so do files that libraries write by calls of their own",
        lambda p: outside.install(p.patches, p.overlay),
        only_without_view=True,
    ),
    Replacement(
        ("sys",),
        (),
        "modules that the program writes can be imported",
        lambda p: modules.install(p.patches, p.overlay),
        only_without_view=True,
    ),
    Replacement(
        ("torch",),
        (),
        "torch.save writes tensors that have no values",
        lambda p: checkpoints.install_saving(p.patches, p.overlay, p.watch),
    ),
    Replacement(
        ("torch.export", "torch.jit"),
        ("torch.export", "torch.onnx"),
        "models are scripted and exported without a GPU",
        lambda p: converting.install_exporting(
            p.patches, converting.install_scripting(p.patches, p.overlay, p.watch, p.places)
        ),
    ),
    Replacement(
        ("torch.ao",),
        ("torch.ao",),
        "models are quantized without a GPU",
        lambda p: converting.install_quantizing(p.patches, p.places, p.observer),
    ),
    Replacement(
        ("torch", "torch.serialization"),
        (),
        "torch.load reads files of this trace, and those of a real GPU",
        lambda p: checkpoints.install_checkpoints(p.patches, p.overlay, p.places, p.watch),
    ),
    Replacement(
        ("torch.nn",),
        (),
        "DataParallel has one card",
        lambda p: wrappers.install_for_several_gpus(p.patches),
    ),
    Replacement(
        (),
        ("safetensors",),
        "weights that are not on this machine are made without values",
        lambda p: weights.install(p.patches, p.places, p.overlay, p.watch),
    ),
    Replacement(
        (),
        ("accelerate", "datasets", "peft", "sklearn", "tokenizers", "transformers", "wandb"),
        "libraries run the steps that differ, and write no files",
        lambda p: libraries.install(p.patches, p.watch, p.overlay, p.repeats),
    ),
    Replacement(
        (),
        ("lightning", "lightning_fabric", "pytorch_lightning"),
        "Lightning runs the steps that differ",
        lambda p: lightning.install(p.patches, p.watch),
    ),
    Replacement(
        (),
        ("triton",),
        "kernels of Triton do nothing but ask for memory",
        lambda p: triton_kernels.install(p.patches, p.observer),
    ),
    Replacement(
        ("torch.autograd", "torch.nn", "torch.optim"),
        (),
        "the trace sees passes, backward and steps of optimizers",
        lambda p: _watch_calls(p.patches, p.watch, Tokens(p.observer, p.places), p.repeats),
    ),
    Replacement(
        (),
        (),
        "each op is a tick of the clock of the trace",
        lambda p: setattr(p.observer, "on_op", p.watch.ticked),
    ),
    Replacement(
        ("multiprocessing", "os", "subprocess"),
        (),
        "processes that the program starts run on the files of the trace",
        lambda p: p.children.install(p.patches),
    ),
)

_AFTER_RANKS = (
    Replacement(
        ("torch.nn",),
        (),
        "a module moves to a device as one",
        lambda p: _watch_moves(p.patches, p.devices),
    ),
    Replacement(
        (
            "torch",
            "torch.Tensor",
            "torch.nested",
            "torch.overrides",
            "torch.storage",
            "torch.utils",
        ),
        (),
        "tensors name the device on which a program would find them",
        lambda p: pretended.install_pretended(p.patches, p.devices),
    ),
    Replacement(
        ("torch._library", "torch.autograd", "torch.utils"),
        (),
        "hooks of backward see the pretended device, too",
        lambda p: _stay_in_backward(p.patches, p.devices, p.observer),
    ),
    Replacement(
        ("torch.autograd",),
        (),
        "save_on_cpu packs and unpacks as on a card",
        lambda p: saved_on_host.install(p.patches, p.devices),
    ),
    Replacement(
        ("torch._C", "torch.distributed", "torch.nn"),
        ("torch.distributed",),
        "DistributedDataParallel and FSDP ask for the memory of one rank",
        lambda p: Wrappers(p.patches, p.observer, p.devices, p.watch, p.world, p.handle).install(),
    ),
    Replacement(
        (),
        ("torch.distributed",),
        "a sharded checkpoint is written without values",
        lambda p: wrappers.install_saving(p.patches, p.watch),
    ),
    Replacement(
        ("torch.distributed",),
        ("accelerate", "torch.distributed", "transformers"),
        "ways to spread a model that a trace cannot count are refused",
        lambda p: uncounted.install_uncounted(p.patches),
    ),
    Replacement(
        (),
        ("deepspeed", "megatron"),
        "so are those of other libraries",
        lambda p: uncounted.install_other_libraries(p.patches),
    ),
)


def _put(parts: _Parts, table: tuple[Replacement, ...]) -> None:
    for row in table:
        if not (row.only_without_view and parts.overlay.by_kernel):
            row.put(parts)


def _work_less(patches: Patches, stack: ExitStack) -> None:
    """Parts of libraries are imported once they are used. Samples are computed by one thread, as in a loader's worker:
    others would mostly wait for each other. Processes that read ahead end with the program."""
    stack.enter_context(imported_later(patches))
    stack.callback(reading_ahead.end_all)
    keep_freed_memory()
    threads = torch.get_num_threads()
    stack.callback(torch.set_num_threads, threads)
    torch.set_num_threads(1)
    patches.set(torch, "get_num_threads", lambda: threads)
    patches.set(torch, "set_num_threads", lambda _: None)


def _watch_calls(patches: Patches, watch: Watch, tokens: Tokens, repeats: Repeats) -> None:
    call = torch.nn.Module.__call__

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        outermost = watch.depth == 0
        if outermost:
            watch.module_called(self)
        watch.depth += 1
        try:
            if outermost and watch.phase == GENERATING:
                return tokens.call(self, call, args, kwargs)
            if outermost:
                return repeats.call(self, call, args, kwargs)
            return call(self, *args, **kwargs)
        finally:
            watch.depth -= 1

    patches.set(torch.nn.Module, "__call__", __call__)
    back = torch.autograd.backward

    def backward(*args: Any, **kwargs: Any) -> Any:
        watch.backward_begins()
        depth, watch.depth = watch.depth, 1
        asked = watch.observer.ledger.asked_bytes
        try:
            return back(*args, **kwargs)
        finally:
            watch.step_sizes.went_backward(watch.observer.ledger.asked_bytes - asked)
            watch.depth = depth
            watch.names.forget()

    patches.set(torch.autograd, "backward", backward)
    make = torch.optim.Optimizer.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        watch.optimizer_made(self)

    patches.set(torch.optim.Optimizer, "__init__", __init__)
    optimizers.register_optimizer_step_pre_hook(
        lambda optimizer, args, kwargs: watch.optimizer_begins(optimizer)
    )
    optimizers.register_optimizer_step_post_hook(
        lambda optimizer, args, kwargs: watch.optimizer_ends(optimizer)
    )


def _watch_moves(patches: Patches, devices: PretendedDevices) -> None:
    apply = torch.nn.Module._apply

    def _apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        with devices.moves.of_module():
            return apply(self, *args, **kwargs)

    patches.set(torch.nn.Module, "_apply", _apply)


def _stay_in_backward(patches: Patches, devices: PretendedDevices, observer: Any) -> None:
    """PyTorch leaves the mode for all of backward; hooks, and what is recomputed in it, name devices, too."""
    pretended.install_custom_ops(patches, observer, devices)
    engine = torch.autograd._engine_run_backward

    def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
        if devices in _get_current_function_mode_stack():
            return engine(*args, **kwargs)
        with devices:
            return engine(*args, **kwargs)

    patches.set(torch.autograd, "_engine_run_backward", _engine_run_backward)
    checkpoint = torch.utils.checkpoint
    known = checkpoint._allowed_determinism_checks_to_fns
    described = known["default"]

    def alike(tensor: Any) -> Any:
        """What is held against the recomputed: the kind of a tensor, inside the mode or not."""
        with torch._C.DisableTorchFunction():
            return described(tensor)

    patches.set(checkpoint, "_allowed_determinism_checks_to_fns", {**known, "default": alike})


def _run(command: list[str], watch: Watch, threads: Threads) -> None:
    order.draw_the_same_again()
    try:
        with threads.as_one_program(), as_main(command), as_in_a_terminal():
            if command[0] == "-m":
                runpy.run_module(command[1], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(command[0], run_name="__main__")
    except Finished:
        watch.observer.notes.add(_WAS_ENDED)
        # What was left out may be batches of other shapes.
        watch.observer.guess_order()
    except SystemExit as end:
        if end.code not in (None, 0) and not watch.steps_seen():
            raise Failure(
                "program-ended",
                f"the program ended with exit code {end.code} before it used the GPU",
                "run it with --verbose to see what it says",
            ) from end
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        print_as_python_does(error)
        if not _may_come_of_less(error, watch):
            raise failure_of(error, command) from error
        watch.observer.notes.add(_ENDED_EARLY.format(in_one_line(error)))
    finally:
        watch.running = False
    _judge_steps(watch)


def _judge_steps(watch: Watch) -> None:
    """Batches of different shapes that come from no loader: loaders tell of theirs."""
    observer = watch.observer
    if observer.differ or not watch.step_sizes.differ():
        return
    observer.differ = True
    drawn = not order.is_seeded()
    if drawn or watch.left_turns_out or watch.ended:
        observer.guess_order(drawn)


def _may_come_of_less(error: BaseException, watch: Watch) -> bool:
    """Whether a program failed because it got fewer turns or batches than it counts on: a list of its losses, say."""
    known = isinstance(error, Exception) and not isinstance(error, (Failure, NotImplementedError))
    return known and watch.left_out and watch.steps_seen()
