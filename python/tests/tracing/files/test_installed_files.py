"""Files of Python's packages: nothing is looked up for them until a program changes one; of a program, by number."""

import os
import sysconfig
import tempfile
import unittest
from unittest import mock

from plimsoll.failure import Failure
from plimsoll.tracing.programs import weights
from plimsoll.tracing.programs.files import by_number, overlay
from plimsoll.tracing.programs.places import Places
from plimsoll.tracing.standins.patches import Patches

PACKAGES = sysconfig.get_paths()["purelib"]


class InstalledFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.overlay = overlay.Overlay(folder.name)

    def looked_up(self):
        patched = mock.patch.object(overlay, "is_of_traces", return_value=False)
        self.addCleanup(patched.stop)
        return patched.start()

    def test_no_marks_of_other_traces_are_read_there(self):
        marks = self.looked_up()
        for name in ("torch/nn/modules/linear.py", "torch", "not there"):
            path = os.path.join(PACKAGES, name)
            self.assertIs(self.overlay.readable(path), path)
        names = {entry.name for entry in self.overlay.listed(os.path.join(PACKAGES, "torch"))}
        self.assertIn("nn", names)
        marks.assert_not_called()
        self.overlay.readable(os.path.join(tempfile.gettempdir(), "out"))
        marks.assert_called_once()

    def test_what_a_program_writes_there_is_found_and_what_it_removes_is_not(self):
        cache, package = os.path.join(PACKAGES, "cache.txt"), os.path.join(PACKAGES, "torch")
        with open(self.overlay.writable(cache), "w", encoding="utf-8") as file:
            file.write("written")
        self.assertTrue(self.overlay.exists(cache))
        self.assertIn("cache.txt", [entry.name for entry in self.overlay.listed(PACKAGES)])
        self.overlay.remove(package)
        self.assertFalse(self.overlay.exists(os.path.join(package, "nn")))
        self.assertNotIn("torch", [entry.name for entry in self.overlay.listed(PACKAGES)])

    def test_a_folder_around_them_may_be_removed(self):
        self.overlay.remove(os.path.dirname(PACKAGES))
        self.assertFalse(self.overlay.exists(os.path.join(PACKAGES, "torch")))


class ByNumber(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.mine, self.none = (
            os.path.join(folder.name, name) for name in ("mine.txt", "none.txt")
        )
        with open(self.mine, "w", encoding="ascii") as file:
            file.write("mine")
        # Beside the files of the program, as a trace has it.
        traces = tempfile.TemporaryDirectory()
        self.addCleanup(traces.cleanup)
        self.overlay, self.patches = overlay.Overlay(traces.name), Patches()

    def opened(self, path, flags):
        """Opens as a traced program does, and writes `!` if it can: the text of the file then, or the error's name."""
        by_number._numbers(self.patches, self.overlay)
        try:
            number = os.open(path, flags)
        except OSError as error:
            self.assertEqual(error.filename, path)
            return type(error).__name__
        finally:
            self.patches.undo()
        if flags & (os.O_WRONLY | os.O_RDWR):
            os.write(number, b"!")
        os.close(number)
        with open(self.overlay.readable(path), encoding="ascii") as file:
            return file.read()

    def test_each_way_to_open_leaves_the_programs_own_file_as_it_is(self):
        make = os.O_WRONLY | os.O_CREAT
        for flags, mine, none in (
            (os.O_RDONLY, "mine", "FileNotFoundError"),
            (os.O_WRONLY, "!ine", "FileNotFoundError"),
            (os.O_RDWR, "!ine", "FileNotFoundError"),
            (os.O_WRONLY | os.O_APPEND, "mine!", "FileNotFoundError"),
            (make, "!ine", "!"),
            (make | os.O_TRUNC, "!", "!"),
            (make | os.O_EXCL, "FileExistsError", "!"),
            (make | os.O_EXCL | os.O_TRUNC, "FileExistsError", "!"),
        ):
            with self.subTest(flags=flags), tempfile.TemporaryDirectory() as traces:
                self.overlay = overlay.Overlay(traces)
                self.assertEqual(self.opened(self.mine, flags), mine)
                self.assertEqual(self.opened(self.none, flags), none)
                self.assertFalse(os.path.exists(self.none))
                with open(self.mine, encoding="ascii") as file:
                    self.assertEqual(file.read(), "mine")

    def test_a_mode_says_what_is_kept_and_what_must_not_be_there(self):
        for mode, kept in (("a", "mine"), ("r+", "mine"), ("w", None), ("w+", None), ("x", None)):
            with self.subTest(mode=mode), tempfile.TemporaryDirectory() as traces:
                seen = overlay.Overlay(traces)
                if mode == "x":
                    with self.assertRaises(FileExistsError):
                        by_number.place_of(seen, self.mine, mode)
                path = by_number.place_of(seen, self.mine if mode != "x" else self.none, mode)
                self.assertTrue(path.startswith(traces))
                self.assertEqual(os.path.exists(path), kept is not None)
        self.assertEqual(by_number.place_of(self.overlay, self.mine, "rb"), self.mine)


class Headers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "a.safetensors")

    def put(self, length, text):
        with open(self.path, "wb") as file:
            file.write(length.to_bytes(8, "little") + text)

    def test_a_file_that_cannot_be_read_is_one_clear_error(self):
        whole = b'{"a": {"dtype": "F32", "shape": [2]}}'
        self.put(len(whole), whole)
        self.assertEqual(list(weights.read_header(self.path)), ["a"])
        for length, text in (
            (0, b"{}"),
            (10**8 + 1, b"{}"),
            (3, b"{}}"),
            (2, b"\xff{"),
            (2, b"[]"),
        ):
            self.put(length, text)
            with self.subTest(length=length, text=text), self.assertRaises(Failure) as caught:
                weights.read_header(self.path)
            self.assertEqual(caught.exception.code, "bad-safetensors")

    def test_an_entry_that_cannot_be_read_is_one_clear_error(self):
        for entry in (
            "{}",
            '{"dtype": "F32"}',
            '{"dtype": "F33", "shape": [2]}',
            '{"dtype": "F32", "shape": 2}',
            '{"dtype": "F32", "shape": ["many"]}',
            "[]",
        ):
            text = f'{{"a": {entry}}}'.encode()
            self.put(len(text), text)
            file = weights.HeaderFile(self.path, "cpu", Places())
            with self.subTest(entry), self.assertRaises(Failure) as caught:
                file.get_tensor("a")
            self.assertEqual(caught.exception.code, "bad-safetensors")


if __name__ == "__main__":
    unittest.main()
