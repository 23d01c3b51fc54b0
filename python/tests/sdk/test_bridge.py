"""The line to the supervisor, with real processes: told, decided, and no worse when it breaks."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import warm
from free_port import free_port

from sdk import HANG_SECONDS, PACKAGE
from sdk.supervisor import Supervisor

AUTO = os.path.join(PACKAGE, "plimsoll", "_auto")

STEPS = """
import sys, time, logging
logging.basicConfig(level=logging.WARNING, format='%(message)s')
import torch, plimsoll
from plimsoll.bridge import connection
if 'answered' in sys.argv:
    connection.ANSWER_SECONDS = 600
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
most = [5]
def loss(batch):
    if len(batch) > most[0]:
        raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 1.00 GiB.')
    return model(batch).square().mean()
step = plimsoll.recovering(model, optimizer, loss)
for _ in range(3):
    step(torch.ones(16, 4))
print('microbatch', step.microbatch, flush=True)
most[0] = 100
if 'wait' in sys.argv:
    before = step.microbatch
    sys.stdin.readline()
    step(torch.ones(16, 4))
    step(torch.ones(16, 4))
    # What the supervisor said comes in beside the steps.
    while 'grows' in sys.argv and step.microbatch == before:
        step(torch.ones(16, 4))
    print('microbatch', step.microbatch, flush=True)
"""
UNCHANGED = """
import os, sys, time, torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while not os.path.exists(sys.argv[1]):
    optimizer.zero_grad()
    model(torch.ones(16, 4)).square().mean().backward()
    optimizer.step()
    time.sleep(0.01)
# Its last words are said however busy the machine is.
sys.modules['plimsoll.bridge.connection'].GOODBYE_SECONDS = 600
torch.empty(2**60, dtype=torch.uint8)
"""


def deciding(action, microbatch):
    def answer(message):
        if message["type"] != "oom":
            return None
        rung = "smaller-microbatch" if action == "retry" else None
        decision = {"action": action, "microbatch": microbatch, "rung": rung, "why": "as told"}
        return {"type": "decide", "id": message["id"], **decision}

    return answer


def environment(bridge=None, folders=(), auto=True, **more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PLIMSOLL_")}
    kept["PYTHONPATH"] = os.pathsep.join([*([AUTO] if auto else []), PACKAGE, *folders])
    if bridge is not None:
        kept["PLIMSOLL_BRIDGE"] = bridge
    return {**kept, **more}


BUFFERS = """
import sys
import torch
import plimsoll
store = plimsoll.buffers(limit=2**24)
store.put("zeros", torch.zeros(2**16))
store.put("ones", torch.ones(2**16))
store.get("zeros"), store.get("none")
sys.stdin.readline()
"""


def start(code, *arguments, unchanged=False, **options):
    """A program that imports the package by itself, or an unchanged one, which gets it from `sitecustomize`."""
    return warm.Popen(
        [sys.executable, "-c", code, *arguments],
        env=environment(auto=unchanged, **options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Bridge(unittest.TestCase):
    def supervisor(self, answer=None):
        made = Supervisor(answer)
        self.addCleanup(made.close)
        return made

    def test_a_program_that_knows_nothing_reports_itself_and_its_end(self):
        supervisor = self.supervisor()
        with tempfile.TemporaryDirectory() as folder:
            more = {"PLIMSOLL_RUN_DIR": folder, "PLIMSOLL_MEMORY_BYTES": str(2**34)}
            seen = os.path.join(folder, "seen")
            job = start(UNCHANGED, seen, unchanged=True, bridge=supervisor.path, **more)
            self.assertGreaterEqual(len(supervisor.wait_for("figures", 2)), 2)
            open(seen, "w", encoding="utf-8").close()
            _, err = job.communicate(timeout=HANG_SECONDS)
            self.assertEqual(job.returncode, 1)
            self.assertIn("DefaultCPUAllocator", err)
            hello = supervisor.wait_for("hello")[0]
            self.assertEqual(
                (hello["version"], hello["pid"], hello["rank"], hello["world"]), (1, job.pid, 0, 1)
            )
            self.assertEqual(hello["device"], "cpu")
            figures = supervisor.of("figures")
            self.assertTrue(
                all(0 < f["allocatedBytes"] <= f["totalBytes"] <= 2**34 for f in figures)
            )
            self.assertTrue(
                {f["phase"] for f in figures} <= {"forward", "backward", "step", "idle", "unknown"}
            )
            message = supervisor.wait_for("oom")[0]
            self.assertEqual((message["kind"], message["askedBytes"]), ("pytorch-cpu", 2**60))
            with open(message["snapshot"], encoding="utf-8") as file:
                snapshot = json.load(file)
            self.assertTrue(any("torch.empty" in s or "<module>" in s for s in snapshot["stack"]))
            self.assertTrue(supervisor.wait_for("bye"))

    def test_buffer_stores_are_in_the_figures(self):
        supervisor = self.supervisor()
        job = start(BUFFERS, unchanged=True, bridge=supervisor.path)
        # The figures of a program without a store have no such field; the miss is the last thing that it does.
        deadline = time.monotonic() + HANG_SECONDS
        found = []
        while not found and time.monotonic() < deadline:
            found = [
                one for one in supervisor.of("figures") if one.get("buffers", {}).get("misses")
            ]
            time.sleep(0.05)
        job.communicate("\n", timeout=HANG_SECONDS)
        stores = found[-1]["buffers"]
        self.assertEqual((stores["items"], stores["hits"], stores["misses"]), (2, 1, 1))
        self.assertGreater(stores["rawBytes"], stores["memoryBytes"] + stores["fileBytes"])

    def test_the_supervisor_decides(self):
        supervisor = self.supervisor(deciding("retry", 3))
        job = start(STEPS, "wait", "grows", "answered", bridge=supervisor.path)
        self.assertEqual(job.stdout.readline().split(), ["microbatch", "3"])
        self.assertIn("microbatch", supervisor.of("hello")[-1]["hooks"])
        [asked] = supervisor.of("oom")
        message = [asked[key] for key in ("microbatch", "batch", "phase", "kind")]
        self.assertEqual(message, [16, 16, "forward", "cuda"])
        self.assertEqual(supervisor.wait_for("step")[0]["microbatch"], 3)
        supervisor.say({"type": "grow", "microbatch": 8, "why": "room"})
        supervisor.say({"type": "noise"})
        out, _ = job.communicate("\n", timeout=HANG_SECONDS)
        self.assertEqual(out.split(), ["microbatch", "8"])

    def test_without_an_answer_it_decides_itself(self):
        supervisor = self.supervisor()
        job = start(STEPS, bridge=supervisor.path)
        out, err = job.communicate(timeout=HANG_SECONDS)
        self.assertEqual(out.split(), ["microbatch", "4"])
        self.assertIn("the supervisor did not answer", err)

    def test_a_raise_lets_the_error_through(self):
        supervisor = self.supervisor(deciding("raise", 1))
        job = start(STEPS, "answered", bridge=supervisor.path)
        _, err = job.communicate(timeout=HANG_SECONDS)
        self.assertEqual(job.returncode, 1)
        self.assertIn("CUDA out of memory", err)

    def test_a_supervisor_that_dies_is_not_missed(self):
        supervisor = self.supervisor(deciding("retry", 2))
        job = start(STEPS, "wait", "answered", bridge=supervisor.path)
        self.assertEqual(job.stdout.readline().split(), ["microbatch", "2"])
        supervisor.die()
        out, err = job.communicate("\n", timeout=HANG_SECONDS)
        self.assertEqual((job.returncode, out.split()), (0, ["microbatch", "2"]), err)

    def test_no_supervisor_at_all(self):
        from plimsoll.bridge import connection

        with mock.patch.dict(os.environ, {"PLIMSOLL_BRIDGE": "/nowhere/bridge"}):
            with (
                mock.patch.object(connection, "_tried", None),
                mock.patch.object(connection, "_bridge", None),
            ):
                self.assertIsNone(connection.current())


class Customize(unittest.TestCase):
    def run_plain(self, code, **options):
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, env=environment(**options), capture_output=True, text=True, check=False
        )
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_the_sitecustomize_that_it_hides_still_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("sitecustomize", "usercustomize"):
                with open(os.path.join(folder, f"{name}.py"), "w", encoding="utf-8") as file:
                    file.write(f"import builtins; builtins.seen_{name} = __file__\n")
            seen = self.run_plain(
                "import sys; print(seen_sitecustomize); print(sys.modules['sitecustomize'].__file__)",
                folders=[folder],
            )
            self.assertEqual(seen, [os.path.join(folder, "sitecustomize.py")] * 2)

    def test_without_torch_nothing_of_ours_is_loaded(self):
        code = "import sys, json; print(sum(n.startswith('plimsoll') for n in sys.modules), 'socket' in sys.modules)"
        self.assertEqual(self.run_plain(code, bridge="/nowhere/bridge"), ["0", "False"])

    def test_importing_the_package_loads_no_torch(self):
        code = "import plimsoll, sys; plimsoll.batches, plimsoll.recognise; print('torch' in sys.modules)"
        self.assertEqual(self.run_plain(code), ["False"])

    def test_a_missing_torch_is_missing_as_ever(self):
        hide = "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]"
        code = f"{hide}\ntry:\n import torch\nexcept ModuleNotFoundError as e:\n print(e.name)"
        self.assertEqual(self.run_plain(code, bridge="/nowhere/bridge"), ["torch"])


class CardCap(unittest.TestCase):
    """A stand-in for torch.cuda: two cards of 100 bytes, and the share that the allocator was told."""

    def program(self, limit, before=1.0):
        from types import SimpleNamespace

        from plimsoll.bridge import memory_cap

        shares, later = {0: before, 1: before}, []

        def set_share(fraction, device=None):
            """As PyTorch does it."""
            if not isinstance(fraction, float):
                raise TypeError("fraction")
            if not 0 <= fraction <= 1:
                raise ValueError("fraction")
            shares[0 if device is None else device] = fraction

        cuda = SimpleNamespace(
            memory=SimpleNamespace(set_per_process_memory_fraction=set_share),
            set_per_process_memory_fraction=set_share,
            get_per_process_memory_fraction=shares.__getitem__,
            current_device=lambda: 0,
            get_device_properties=lambda index: SimpleNamespace(total_memory=100),
            _lazy_call=later.append,
        )
        for change in (
            mock.patch.dict(os.environ, {"PLIMSOLL_MEMORY_BYTES": str(limit)}),
            mock.patch.object(memory_cap, "_capped", set()),
        ):
            change.start()
            self.addCleanup(change.stop)
        memory_cap.cap_cuda(SimpleNamespace(cuda=cuda, device=lambda name: None))
        return cuda, shares, later

    def test_a_program_cannot_lift_its_limit(self):
        for module in ("cuda", "memory"):
            for asked, kept in ((0.9, 0.5), (0.5, 0.5), (0.2, 0.2), (1.0, 0.5)):
                for device in (None, 1):
                    with self.subTest(module=module, asked=asked, device=device):
                        cuda, shares, later = self.program(50)
                        later[0]()
                        where = cuda if module == "cuda" else cuda.memory
                        said = self.assertLogs if asked > kept else self.assertNoLogs
                        with said("plimsoll", "WARNING"):
                            where.set_per_process_memory_fraction(asked, device)
                        self.assertEqual(shares[device or 0], kept)

    def test_a_smaller_share_from_before_stays(self):
        for before, kept in ((0.3, 0.3), (0.7, 0.5)):
            _, shares, later = self.program(50, before)
            later[0]()
            self.assertEqual(shares[0], kept)

    def test_a_bad_share_is_refused_as_ever(self):
        cuda, shares, _ = self.program(50)
        for bad, error in ((2, TypeError), (1.5, ValueError), (-0.1, ValueError)):
            with self.assertRaises(error):
                cuda.set_per_process_memory_fraction(bad)
        self.assertEqual(shares, {0: 1.0, 1: 1.0})


# Two gloo ranks, one of which fails: no hang, the same parameters, exact gradients.

FOLDER = os.path.dirname(os.path.abspath(__file__))
TRIALS = os.environ.get("PLIMSOLL_TEST_RANK_FAILURES", "12")


def run_ranks(script, *arguments, env=None):
    port = str(free_port())
    ranks = [
        warm.Popen(
            [sys.executable, os.path.join(FOLDER, script), str(rank), port, *arguments, PACKAGE],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        for rank in range(2)
    ]
    try:
        return [(*one.communicate(timeout=HANG_SECONDS), one.returncode) for one in ranks]
    finally:
        for one in ranks:
            one.kill()


class TwoRanks(unittest.TestCase):
    def test_one_fails_at_a_random_point(self):
        for out, err, status in run_ranks("two_ranks.py", TRIALS):
            self.assertEqual(status, 0, err)
            result = json.loads(out.splitlines()[-1])
            self.assertEqual((result["trials"], result["wrong"]), (int(TRIALS), []))

    def test_a_rank_that_gives_up_ends_the_other_with_a_word(self):
        (healthy, _, _), (failed, _, _) = run_ranks("one_gives_up.py", "ddp")
        self.assertIn("ended OutOfMemoryError", failed)
        self.assertIn("ended Failure rank-gone", healthy)

    def test_with_fsdp_the_others_do_not_hang_in_their_collectives(self):
        (healthy, _, _), (failed, _, _) = run_ranks("one_gives_up.py", "fsdp")
        self.assertIn("stepped [4, 4]", healthy)
        self.assertIn("stepped [4, 4]", failed)
        self.assertIn("ended OutOfMemoryError", failed)
        self.assertNotIn("went on", healthy)

    def test_with_fsdp_a_run_goes_on_from_its_checkpoint_and_counts_each_sample_once(self):
        fails_at, steps = 3, 6
        with tempfile.TemporaryDirectory() as folder:
            lives = [
                run_ranks("../sharding/sharded_ranks.py", folder, str(fails_at)) for _ in range(2)
            ]
        for rank in range(2):
            first, second = (
                [json.loads(line) for line in life[rank][0].splitlines()] for life in lives
            )
            trained = [line for line in (*first, *second) if "step" in line]
            self.assertEqual([line["step"] for line in first[:-1]], list(range(fails_at)))
            self.assertEqual([line["step"] for line in trained], list(range(steps)), lives)
            self.assertEqual({sum(line["parts"]) for line in trained}, {8})
            self.assertLess(max(line["off"] for line in trained), 1e-6)
            self.assertNotEqual(first[-1]["ended"], "done")
            self.assertEqual(second[-1]["ended"], "done")
            self.assertLess(second[-1]["off"], 1e-6)
        self.assertEqual(json.loads(lives[0][1][0].splitlines()[-1])["ended"], "OutOfMemoryError")


if __name__ == "__main__":
    unittest.main()
