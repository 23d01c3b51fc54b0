"""Processes for tests, forked from one that has torch loaded.

To import torch costs a processor 2.6 s, and hundreds of tests start a program that needs it. `run` and `Popen` are
those of `subprocess`; where they can, they take a fork of a process that has imported torch and computed nothing. The
program has its own arguments, variables, folder, files, `__main__`, signals and exit status, and ends as Python ends.
One thing is different: torch and `torch._dynamo` are in `sys.modules` from the start, and for `-m plimsoll_trace` torch
and the modules that each trace imports before it looks at its program. A test about the start of a process, about its
time or about the modules that it loads uses `subprocess`.

A command that asks for what a fork cannot give (other options of Python, a variable that is read while torch is
imported, `sitecustomize`) is started as `subprocess` does it.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import functools
import gc
import importlib.machinery
import io
import json
import multiprocessing.process
import os
import random
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import types
import warnings

# Names the socket of the process that forks; tests that run without it start one of their own.
ADDRESS = "TESTS_WARM"
# Neither Python nor torch reads these before the program begins, so a fork can be given others.
LATE_VARIABLES = {
    ADDRESS,
    "CUDA_VISIBLE_DEVICES",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPATH",
    "RANK",
    "TEMP",
    "TMP",
    "TMPDIR",
    "WORLD_SIZE",
}
LATE_PREFIXES = ("PLIMSOLL_", "ACCELERATE_", "HF_", "TRANSFORMERS_")
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if __name__ != "__main__" and PACKAGE not in sys.path:
    # For the tests; the process that forks has the path of Python alone.
    sys.path.insert(0, PACKAGE)
# It ends a test that hangs; a machine that is busy on every core is slow, and no fault.
HANG_SECONDS = 600
# The end of the address of a second server, for traces.
TRACES = "-traces"
_TRACE_MODULES = ("plimsoll_trace.record", "plimsoll_trace.programs.run")
_LENGTH = struct.Struct("!I")
# Status and processor seconds of a process that ended.
_END = struct.Struct("!Id")
_IGNORE_ALL = ("ignore", None, Warning, None, 0)

# The system hands out the ports above to any program that connects, before the ranks have imported torch.
LOWEST, FIRST_EPHEMERAL = 20_000, 32_768


def run(command, *, input=None, capture_output=False, timeout=None, check=False, **options):
    """As `subprocess.run`."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with Popen(command, **options) as process:
        try:
            stdout, stderr = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stdout, stderr)
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


class Popen(subprocess.Popen):
    """As `subprocess.Popen`; its process is a child of the one that forks."""

    # Of all that ended, with what they started.
    processor_seconds = 0.0
    _connection = None

    def _execute_child(
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others, **more
    ):
        _, _, shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *after = others
        new_session = bool(after[5] if len(after) > 5 else more.get("start_new_session"))
        plain = not (shell or preexec_fn or pass_fds or executable or isinstance(args, str))
        if plain and len(args) > 1 and args[0] == sys.executable:
            question = {
                "words": [os.fspath(word) for word in args],
                "folder": os.path.join(os.getcwd(), os.fspath(cwd or "")),
                "variables": dict(os.environ if env is None else env),
                "newSession": new_session,
            }
            files = [
                inherited if given == -1 else given
                for inherited, given in enumerate((p2cread, c2pwrite, errwrite))
            ]
            asked = _ask(question, files)
            if asked is not None:
                self._connection, self.pid = asked
                self._child_created = True
                self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)
                return
        super()._execute_child(
            args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others, **more
        )

    def _try_wait(self, wait_flags):
        if self._connection is None:
            return super()._try_wait(wait_flags)
        try:
            self._connection.setblocking(not wait_flags & os.WNOHANG)
            answer = self._connection.recv(_END.size)
        except BlockingIOError:
            return 0, 0
        except OSError:
            answer = b""
        self._connection.close()
        # Without an answer the process that forks is gone, and took its forks with it.
        status, seconds = _END.unpack(answer) if answer else (int(signal.SIGKILL), 0.0)
        Popen.processor_seconds += seconds
        return self.pid, status

    def _internal_poll(self, _deadstate=None, **known):
        if self._connection is None:
            return super()._internal_poll(_deadstate=_deadstate, **known)
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid == self.pid:
                        self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


def free_port():
    """A port for ranks that find one another by it."""
    while True:
        port = random.SystemRandom().randrange(LOWEST, FIRST_EPHEMERAL)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def started():
    """The address of the process that forks, started if there is none; None where processes cannot be forked."""
    if ADDRESS not in os.environ and sys.platform == "linux":
        # The address of a socket has at most 107 characters.
        deep = len(tempfile.gettempdir()) > 60
        folder = tempfile.mkdtemp(prefix="warm-", dir="/tmp" if deep else None)
        address = os.path.join(folder, "socket")
        command = [sys.executable, "-W", "ignore", os.path.abspath(__file__), address]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # Without torch there is no such process, and every program is started by Python.
        os.environ[ADDRESS] = address if server.stdout.readline() else ""
        atexit.register(_end, server, folder, os.getpid())
    return os.environ.get(ADDRESS) or None


def _end(server, folder, starter):
    # A fork of this process ends as well; the server is not its own.
    if os.getpid() != starter:
        return
    os.environ.pop(ADDRESS, None)
    server.stdin.close()
    server.stdout.close()
    server.wait()
    with contextlib.suppress(OSError):
        # The server removed it, unless it could not start.
        os.rmdir(folder)


def _ask(question, files):
    """The connection that tells of the end of the process, and its pid; None where it must be a real one."""
    address = started()
    if address is None:
        return None
    parsed = _parsed(question["words"][1:])
    if parsed is not None and parsed[1:3] == ("-m", "plimsoll_trace"):
        address += TRACES
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(address)
        text = json.dumps(question).encode("utf-8", "surrogateescape")
        socket.send_fds(connection, [_LENGTH.pack(len(text))], files)
        connection.sendall(text)
        answer = _received(connection, _LENGTH.size)
    except BaseException:
        connection.close()
        raise
    (pid,) = _LENGTH.unpack(answer)
    if pid == 0:
        connection.close()
        return None
    return connection, pid


def _received(connection, size):
    text = b""
    while len(text) < size:
        part = connection.recv(size - len(text))
        if not part:
            raise ConnectionError("the process that forks is gone")
        text += part
    return text


class _Server:
    """Imports torch and runs nothing, so that no program sees what another did."""

    def __init__(self, address):
        self.variables = dict(os.environ)
        # The first is the folder of this file; those after it are the caller's.
        given = os.environ.get("PYTHONPATH", "")
        own = [os.path.abspath(one) for one in given.split(os.pathsep) if given]
        self.path = [one for one in sys.path[1:] if one not in own]
        # OpenBLAS would start threads when it is loaded: a process that has threads cannot be forked safely.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        importlib.import_module("torch")
        # Connections of the processes that run, by pid.
        self.running = {}
        self.addresses = [address, f"{address}{TRACES}"]
        listening = [socket.socket(socket.AF_UNIX) for _ in self.addresses]
        for one, own in zip(listening, self.addresses):
            one.bind(own)
            one.listen(64)
        # The second server; 0 in itself.
        self.tracer = os.fork()
        if self.tracer == 0:
            sys.path.insert(0, PACKAGE)
            for name in _TRACE_MODULES:
                importlib.import_module(name)
        else:
            # Each optimizer that a program makes would import it, in 1.5 s of a processor.
            importlib.import_module("torch._dynamo")
        self.listening = listening.pop(0 if self.tracer else 1)
        listening[0].close()
        self.pid = os.getpid()
        self.selector = selectors.DefaultSelector()

    def serve(self):
        """Returns in each fork, with what the fork is asked; in a server when its input ends."""
        woken, wakes = os.pipe()
        self.pipes = (woken, wakes)
        for one in self.pipes:
            os.set_blocking(one, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        for one in (0, woken, self.listening):
            self.selector.register(one, selectors.EVENT_READ)
        if self.tracer:
            sys.stdout.write("ready\n")
            sys.stdout.flush()
        while True:
            for key, _ in self.selector.select():
                if key.fd == 0 and not os.read(0, 4096):
                    self.stop()
                    return None
                if key.fd == woken:
                    os.read(woken, 4096)
                if key.fileobj is self.listening:
                    question = self.accept()
                    if question is not None:
                        return question
            self.collect()

    def accept(self):
        connection, _ = self.listening.accept()
        files = array.array("i")
        try:
            length, found, _, _ = socket.recv_fds(connection, _LENGTH.size, 3)
            files.extend(found)
            question = json.loads(_received(connection, *_LENGTH.unpack(length)))
            if len(files) != 3 or not self.can(question):
                connection.sendall(_LENGTH.pack(0))
                connection.close()
                return None
            pid = os.fork()
            if pid == 0:
                connection.close()
                self.become_a_fork()
                return question, files
            self.running[pid] = connection
            connection.sendall(_LENGTH.pack(pid))
        except (OSError, ValueError, struct.error):
            # The one that asked is gone.
            connection.close()
        finally:
            if os.getpid() == self.pid:
                for one in files:
                    os.close(one)
        return None

    def can(self, question):
        variables = question["variables"]
        for name in variables.keys() | self.variables.keys():
            late = name in LATE_VARIABLES or name.startswith(LATE_PREFIXES)
            if variables.get(name) != self.variables.get(name) and not late:
                return False
        for folder in variables.get("PYTHONPATH", "").split(os.pathsep):
            for name in ("sitecustomize", "usercustomize"):
                if os.path.exists(os.path.join(question["folder"], folder, f"{name}.py")):
                    return False
        parsed = _parsed(question["words"][1:])
        if parsed is None or not os.path.isdir(question["folder"]):
            return False
        _, kind, name, _ = parsed
        if self.tracer == 0:
            folders = [question["folder"], *variables.get("PYTHONPATH", "").split(os.pathsep)]
            found = [one for one in folders if os.path.exists(os.path.join(one, "plimsoll"))]
            return bool(found) and os.path.samefile(found[0], PACKAGE)
        return kind != "file" or os.path.isfile(os.path.join(question["folder"], name))

    def become_a_fork(self):
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.selector.close()
        self.listening.close()
        for one in self.pipes:
            os.close(one)
        for connection in self.running.values():
            connection.close()
        self.running.clear()

    def collect(self):
        while self.running:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            connection = self.running.pop(pid, None)
            if connection is None:
                # The other server.
                continue
            with contextlib.suppress(OSError):
                connection.sendall(_END.pack(status, used.ru_utime + used.ru_stime))
            connection.close()

    def stop(self):
        for pid in self.running:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if self.tracer:
            for address in self.addresses:
                os.unlink(address)
            # Also where the one that started it was killed.
            os.rmdir(os.path.dirname(self.addresses[0]))
            with contextlib.suppress(OSError):
                os.waitpid(self.tracer, 0)


def _parsed(words):
    """Options, what kind of program, its name or text, and its arguments; None with options that a fork has not."""
    options, at = {}, 0
    while at < len(words):
        word = words[at]
        if word == "-u":
            options["unbuffered"] = True
        elif word == "-W" and words[at + 1 : at + 2] == ["ignore"]:
            options["ignore"] = True
            at += 1
        elif word in ("-c", "-m") and at + 1 < len(words):
            return options, word, words[at + 1], words[at + 2 :]
        elif word.startswith("-"):
            return None
        else:
            return options, "file", word, words[at + 1 :]
        at += 1
    return None


def _run(question, files, path):
    """Makes this fork the process that the question describes, and runs its program."""
    options, kind, name, arguments = _parsed(question["words"][1:])
    if question["newSession"]:
        os.setsid()
    for target, file in enumerate(files):
        os.dup2(file, target)
    for file in set(files) - {0, 1, 2}:
        os.close(file)
    os.environ.clear()
    os.environ.update(question["variables"])
    os.chdir(question["folder"])
    tempfile.tempdir = None
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    if not options.get("ignore"):
        sys.warnoptions.clear()
        warnings.filters[:] = [one for one in warnings.filters if one != _IGNORE_ALL]
        warnings._filters_mutated()
    _open_own_files(options.get("unbuffered") or bool(os.environ.get("PYTHONUNBUFFERED")))
    folders = os.environ.get("PYTHONPATH")
    sys.path[:] = [
        *(os.path.abspath(one) for one in (folders.split(os.pathsep) if folders else ())),
        *path,
    ]
    sys.path_importer_cache.clear()
    # Taken when these were imported.
    multiprocessing.process.ORIGINAL_DIR = os.getcwd()
    # Each process draws its own numbers where it asks for no seed; `random` sees to it by itself.
    sys.modules["torch"].default_generator.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    main.__annotations__ = {}
    main.__builtins__ = sys.modules["builtins"]
    sys.orig_argv = question["words"]
    sys.argv = [kind if kind != "file" else name, *arguments]
    if kind == "-c":
        sys.path.insert(0, "")
        main.__loader__ = importlib.machinery.BuiltinImporter
        code = compile(name, "<string>", "exec")
    elif kind == "-m":
        sys.path.insert(0, os.getcwd())
        runpy._run_module_as_main(name)
        return
    else:
        sys.path.insert(0, os.path.dirname(os.path.realpath(name)))
        main.__file__ = os.path.abspath(name)
        main.__cached__ = None
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", name)
        with open(name, "rb") as file:
            code = compile(file.read(), main.__file__, "exec")
    exec(code, main.__dict__)


def _open_own_files(unbuffered):
    encoding, errors = sys.__stdout__.encoding, sys.__stdout__.errors
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        raw = io.FileIO(number, "w" if number else "r", closefd=False)
        raw.name = f"<{name}>"
        buffered = (
            (raw if unbuffered else io.BufferedWriter(raw)) if number else io.BufferedReader(raw)
        )
        file = io.TextIOWrapper(
            buffered,
            encoding,
            "backslashreplace" if number == 2 else errors,
            line_buffering=not unbuffered and (number == 2 or raw.isatty()),
            write_through=unbuffered,
        )
        file.mode = "w" if number else "r"
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)


def _run_to_its_end(program):
    """Its exit status; None where it was interrupted, which is told by a signal."""
    status = 0
    try:
        program()
    except SystemExit as error:
        status = error.code or 0
        if not isinstance(status, int):
            sys.stderr.write(f"{status}\n")
            status = 1
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        status = None if isinstance(error, KeyboardInterrupt) else 1
    # As Python does it: threads, then what was registered, then what the program still holds. Modules are left alone:
    # to take torch apart would cost more than many a test.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.modules["__main__"].__dict__.clear()
    gc.collect(1)
    return status


def _end_process(status):
    for file in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            file.flush()
    if status is None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 0xFF)


if __name__ == "__main__":
    _server = _Server(sys.argv[1])
    _asked = _server.serve()
    if _asked is not None:
        _end_process(_run_to_its_end(functools.partial(_run, *_asked, _server.path)))
