"""Runs a program as it is, and records what it would ask the GPU's allocator for."""

from __future__ import annotations

import os
import runpy
import struct
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.utils.checkpoint
from torch.optim import optimizer as optimizers
from torch.overrides import _get_current_function_mode_stack

from plimsoll.failure import Failure

from ..gpu import Gpu
from ..imports.later_parts import imported_later
from ..module_names import ModuleNames
from ..sharding.streams import DeviceHandle
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
        watch = Watch(observer, names)
        handle = _install(patches, observer, places, watch, overlay)
        children = Children(overlay)
        children.install(patches)
        launch = launch_of(command, places)
        places.cards = max(places.cards, launch.of_a_node)
        announce(launch)
        world = ranks.install(patches, observer, launch.processes)
        stack.enter_context(observer)
        devices = PretendedDevices(places, observer)
        _watch_moves(patches, devices)
        pretended.install_pretended(patches, devices)
        _stay_in_backward(patches, devices, observer)
        saved_on_host.install(patches, devices)
        Wrappers(patches, observer, devices, watch, world, handle).install()
        wrappers.install_saving(patches, watch)
        uncounted.install_uncounted(patches)
        uncounted.install_other_libraries(patches)
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
            recording.benchmark, guesses = True, observer.guesses_trials
            recording.guesses_trials = guesses
            observer.notes.add(_BENCHMARK + (_GUESSES_TRIALS if guesses else ""))
    recording.notes = sorted({*observer.notes, *children.notes})
    recording.compiled, recording.fused = observer.compiled, observer.fused
    recording.ragged, recording.drawn = observer.ragged, observer.drawn
    recording.graphs, recording.skips_layers = observer.graphs, observer.skips_layers
    recording.ended, recording.more_bytes = watch.ended, watch.more_bytes
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


def _install(
    patches: Patches,
    observer: ProgramObserver,
    places: Places,
    watch: Watch,
    overlay: Overlay,
) -> DeviceHandle:
    """What a program calls; answers with the streams that it works on."""
    handle = streams.first_of(observer, places.cards)
    cuda_api.install_cuda_api(patches, observer, places, streams.table(handle))
    tensor_types.install(patches)
    parameters.install(patches, places)
    loaders.install(patches, watch)
    rewritten.install(patches, watch)
    inner_iterations.install(patches, watch)
    graph_order.install(patches)
    random_draws.install(patches)
    if not overlay.by_kernel:
        calls.install(patches, overlay)
        outside.install(patches, overlay)
        modules.install(patches, overlay)
    checkpoints.install_saving(patches, overlay, watch)
    converting.install_exporting(
        patches, converting.install_scripting(patches, overlay, watch, places)
    )
    converting.install_quantizing(patches, places, observer)
    checkpoints.install_checkpoints(patches, overlay, places, watch)
    wrappers.install_for_several_gpus(patches)
    weights.install(patches, places, overlay, watch)
    repeats = Repeats(observer, places, watch)
    libraries.install(patches, watch, overlay, repeats)
    lightning.install(patches, watch)
    triton_kernels.install(patches, observer)
    _watch_calls(patches, watch, Tokens(observer, places), repeats)
    observer.on_op = watch.ticked
    return handle


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
