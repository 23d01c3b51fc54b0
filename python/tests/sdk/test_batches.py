"""Batches: in order, each sample once, whatever shrinks, breaks off or is taken back."""

import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import unittest

from warm import PACKAGE

import plimsoll
from plimsoll import batching

CRASHES = int(os.environ.get("PLIMSOLL_TEST_CRASHES", "8"))
SAMPLES = 600 * CRASHES
# A job that is to be killed stands still after so many, however late that comes: the last one ends its work.
OWN_SAMPLES = SAMPLES // (CRASHES + 1) - 16

# Each batch is written under the number of its first sample, then confirmed: done twice, it is the same.
JOB = """
import json, os, signal, sys, time
sys.path.insert(0, sys.argv[1])
import plimsoll
folder, way = sys.argv[2], sys.argv[3]
data = list(range(1000, 1000 + int(sys.argv[5])))
shares = iter(json.loads(sys.argv[4]))
looks = lambda: next(shares, 0.6)
position = os.path.join(folder, 'position') if way == 'file' else None
batches = plimsoll.batches(data, batch_size=16, position=position, used_share=looks)
state = os.path.join(folder, 'checkpoint')
total = own = 0
if way == 'checkpoint' and os.path.exists(state):
    with open(state) as file:
        saved = json.load(file)
    total = saved['total']
    batches.load_state_dict(saved['batches'])
print('ready', flush=True)
for batch in batches:
    time.sleep(0.001)
    if way == 'file':
        name = os.path.join(folder, 'batch-%06d' % batch.start)
        with open(name + '.part', 'w') as file:
            json.dump(batch, file)
        os.replace(name + '.part', name)
        batches.commit()
    else:
        total += sum(batch)
        batches.commit()
        with open(state + '.part', 'w') as file:
            json.dump({'total': total, 'count': batch.stop, 'batches': batches.state_dict()}, file)
        os.replace(state + '.part', state)
    own += len(batch)
    if own >= int(sys.argv[6]):
        signal.pause()
"""


class InOrder(unittest.TestCase):
    def setUp(self):
        log = logging.getLogger("plimsoll")
        self.addCleanup(log.setLevel, log.level)
        log.setLevel(logging.ERROR)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(setattr, batching, "LOOK_SECONDS", batching.LOOK_SECONDS)
        batching.LOOK_SECONDS = 0.0

    def path(self):
        return os.path.join(self.folder.name, "position")

    def test_shrinks_above_85_percent_and_grows_below_50(self):
        shares = iter([0.6, 0.9, 0.9, 0.6, 0.4, 0.4, 0.4])
        made = plimsoll.batches(range(200), batch_size=32, used_share=lambda: next(shares, 0.6))
        sizes = [len(batch) for batch in made]
        self.assertEqual(sizes, [32, 32, 16, 8, 8, 16, 32, 32, 24])

    def test_every_sample_once_for_sequences_and_streams(self):
        for trial in range(60):
            draw = random.Random(trial)
            count = draw.randrange(200)
            source = list(range(count)) if trial % 2 else iter(range(count))
            made = plimsoll.batches(source, batch_size=draw.randint(1, 40), used_share=draw.random)
            seen = []
            for batch in made:
                if draw.random() < 0.2:
                    made.retry()
                    continue
                self.assertEqual(batch.start, len(seen))
                seen += batch
            self.assertEqual(seen, list(range(count)))
            self.assertEqual(made.confirmed, count)

    def test_a_batch_counts_when_the_next_is_asked_for(self):
        made = plimsoll.batches(list(range(10)), batch_size=4, position=self.path())
        running = iter(made)
        next(running)
        self.assertEqual(made.confirmed, 0)
        next(running)
        self.assertEqual(made.confirmed, 4)
        again = plimsoll.batches(list(range(10)), batch_size=4, position=self.path())
        self.assertEqual([list(batch) for batch in again], [[4, 5, 6, 7], [8, 9]])

    def test_commit_confirms_at_once(self):
        made = plimsoll.batches(list(range(10)), batch_size=4, position=self.path())
        next(made)
        made.commit()
        again = plimsoll.batches(list(range(10)), batch_size=4, position=self.path())
        self.assertEqual(list(next(again)), [4, 5, 6, 7])

    def test_epochs_are_counted_and_a_finished_one_is_not_done_again(self):
        made = plimsoll.batches(list(range(5)), batch_size=2, position=self.path())
        self.assertEqual([s for b in made for s in b], list(range(5)))
        again = plimsoll.batches(list(range(5)), batch_size=2, position=self.path())
        passes = [[s for b in again for s in b] for _ in range(again.epoch, 2)]
        self.assertEqual(passes, [[], list(range(5))])
        self.assertEqual(again.epoch, 1)

    def test_a_stream_resumes_by_skipping(self):
        made = plimsoll.batches(iter(range(10)), batch_size=3, position=self.path())
        next(made)
        next(made)
        again = plimsoll.batches(iter(range(10)), batch_size=3, position=self.path())
        self.assertEqual([s for b in again for s in b], list(range(3, 10)))

    def test_a_torn_slot_leaves_the_other(self):
        made = plimsoll.batches(list(range(100)), batch_size=10, position=self.path())
        for _ in range(4):
            next(made)
        made.close()
        with open(self.path(), "rb") as file:
            whole = file.read()
        for cut in range(0, len(whole), 37):
            with open(self.path(), "wb") as file:
                file.write(whole[:cut] + b"\0" * (len(whole) - cut))
            try:
                resumed = plimsoll.batches(list(range(100)), batch_size=10, position=self.path())
            except plimsoll.Failure as failure:
                self.assertEqual(failure.code, "position-unreadable")
            else:
                self.assertIn(resumed.confirmed, (0, 20, 30))

    def test_a_write_cut_short_at_any_byte_leaves_a_whole_position(self):
        # Every prefix of every write: what kill -9 can leave, since a processor's stores come in order.
        from plimsoll import batching

        def states(write):
            before = bytearray(made._map[:])
            write()
            after = bytes(made._map[:])
            changed = [i for i in range(len(before)) if before[i] != after[i]]
            # Slots are written one after the other; in which order is seen from what is whole in between.
            for first in (0, batching.SECOND):
                torn = bytearray(before)
                for place in sorted(
                    changed, key=lambda i: ((i // batching.SECOND * batching.SECOND) != first, i)
                ):
                    torn[place] = after[place]
                    yield first, bytes(torn)

        made = batching.PositionFile(self.path())
        made.begin(10, 4, 0)
        moves = [
            (lambda: made.save(20, 4, 0), {10, 20}),
            (lambda: made.save(30, 4, 0), {20, 30}),
            (lambda: made.save(30, 2, 0), {30}),
            (lambda: made.save(32, 2, 0), {30, 32}),
            (lambda: made.begin(5, 2, 0), {32, 5}),
            (lambda: made.save(0, 2, 1), {5, 0}),
        ]
        for write, allowed in moves:
            seen = {}
            for first, torn in states(write):
                with open(self.path() + ".torn", "wb") as file:
                    file.write(torn)
                try:
                    again = batching.PositionFile(self.path() + ".torn")
                    found = again.saved["next"]
                    again.close()
                except plimsoll.Failure:
                    found = "lost"
                seen.setdefault(first, set()).add(found)
            # One of the two orders is the true one, and in it nothing is ever lost.
            self.assertTrue(any(found <= allowed for found in seen.values()), seen)

    def test_a_position_may_go_back_and_epochs_begin_anew(self):
        made = plimsoll.batches(list(range(100)), batch_size=10, position=self.path())
        for _ in range(5):
            next(made)
        made.load_state_dict({"next": 10, "size": 10, "epoch": 3})
        next(made)
        next(made)
        made.close()
        again = plimsoll.batches(list(range(100)), batch_size=10, position=self.path())
        self.assertEqual(again.state_dict(), {"next": 20, "size": 10, "epoch": 3})

    def test_the_size_it_came_to_is_saved(self):
        made = plimsoll.batches(
            list(range(100)), batch_size=16, position=self.path(), used_share=lambda: 0.6
        )
        next(made)
        made.retry()
        next(made)
        made.close()
        again = plimsoll.batches(list(range(100)), batch_size=16, position=self.path())
        self.assertEqual(again.state_dict(), {"next": 0, "size": 8, "epoch": 0})

    def test_two_processes_do_not_share_a_position(self):
        made = plimsoll.batches(list(range(100)), batch_size=10, position=self.path())
        next(made)
        code = (
            "import sys, plimsoll\ntry:\n plimsoll.batches([1], batch_size=1, position=sys.argv[1])\n"
            "except plimsoll.Failure as failure:\n print(failure.code)"
        )
        command = [sys.executable, "-S", "-c", code, self.path()]
        environment = {**os.environ, "PYTHONPATH": PACKAGE}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        self.assertEqual(done.stdout.strip(), "position-in-use")

    def test_a_file_of_someone_else_is_refused_and_kept(self):
        for content in (b"precious", b"\x80\x04" * 400, b"{}" * 300):
            with open(self.path(), "wb") as file:
                file.write(content)
            with self.assertRaises(plimsoll.Failure):
                plimsoll.batches([1, 2], batch_size=1, position=self.path())
            with open(self.path(), "rb") as file:
                self.assertEqual(file.read(), content)

    def test_a_position_beyond_the_dataset_is_refused(self):
        list(plimsoll.batches(list(range(50)), batch_size=10, position=self.path()))
        with self.assertRaises(plimsoll.Failure) as caught:
            plimsoll.batches(list(range(20)), batch_size=10, position=self.path())
        self.assertEqual(caught.exception.code, "position-of-another-dataset")

    def test_datasets_that_fetch_many_at_once(self):
        class Fetching:
            def __len__(self):
                return 7

            def __getitem__(self, index):
                raise AssertionError("one at a time")

            def __getitems__(self, indices):
                return [index * 2 for index in indices]

        self.assertEqual(
            [list(b) for b in plimsoll.batches(Fetching(), batch_size=4)],
            [[0, 2, 4, 6], [8, 10, 12]],
        )


class Killed(unittest.TestCase):
    """kill -9 at random moments, until the job gets through."""

    def run_to_the_end(self, way, seed):
        draw = random.Random(seed)
        kills = 0
        with tempfile.TemporaryDirectory() as folder:
            while True:
                shares = json.dumps([draw.random() for _ in range(50)])
                command = [
                    sys.executable,
                    "-S",
                    "-c",
                    JOB,
                    PACKAGE,
                    folder,
                    way,
                    shares,
                    str(SAMPLES),
                    str(OWN_SAMPLES if kills < CRASHES else SAMPLES + 1),
                ]
                job = subprocess.Popen(command, stdout=subprocess.PIPE)
                with job.stdout:
                    job.stdout.readline()
                    if kills < CRASHES:
                        try:
                            job.wait(draw.uniform(0.0, 0.04))
                        except subprocess.TimeoutExpired:
                            job.send_signal(signal.SIGKILL)
                            kills += 1
                if job.wait() == 0:
                    return kills, self.result(folder, way)

    def result(self, folder, way):
        if way == "checkpoint":
            with open(os.path.join(folder, "checkpoint"), encoding="utf-8") as file:
                return json.load(file)
        found = []
        for name in sorted(
            n for n in os.listdir(folder) if n.startswith("batch-") and "." not in n
        ):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found.append((int(name[6:]), json.load(file)))
        return found

    def test_with_a_position_file_nothing_is_lost(self):
        kills, written = self.run_to_the_end("file", 1)
        self.assertEqual(kills, CRASHES)
        samples = {}
        for start, batch in written:
            for place, sample in enumerate(batch, start):
                # A batch that came again may be smaller; where it overlaps it is the same.
                self.assertEqual(samples.setdefault(place, sample), sample)
        self.assertEqual([samples[i] for i in sorted(samples)], list(range(1000, 1000 + SAMPLES)))

    def test_saved_beside_the_model_every_sample_counts_once(self):
        kills, saved = self.run_to_the_end("checkpoint", 2)
        self.assertEqual(kills, CRASHES)
        self.assertEqual(
            (saved["total"], saved["count"]), (sum(range(1000, 1000 + SAMPLES)), SAMPLES)
        )
