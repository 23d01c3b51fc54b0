"""The configuration as Python reads it: file, variables, and one error for what is wrong."""

import json
import os
import random
import tempfile
import unittest

from plimsoll.failure import Failure
from plimsoll.settings.read import checked, leaves, read_settings, variable_of


class Settings(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.mkdir(os.path.join(self.folder.name, ".git"))

    def write(self, text, name="plimsoll.config.json"):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path

    def read(self, config=None, **environment):
        return read_settings(config, environment, self.folder.name)

    def refused(self, code, *given, **environment):
        with self.assertRaises(Failure) as caught:
            self.read(*given, **environment)
        self.assertEqual(caught.exception.code, code)
        return str(caught.exception)

    def test_there_is_none_unless_one_is_found(self):
        self.assertEqual(self.read(), {})

    def test_finds_the_file_above_and_takes_variables_over_it(self):
        self.write('{"training": {"batch": 8, "precision": "bf16"}}')
        deep = os.path.join(self.folder.name, "a", "b")
        os.makedirs(deep)
        variables = {"PLIMSOLL_TRAINING_BATCH": "16", "PLIMSOLL_BUFFERS_COMPRESS": "False"}
        found = read_settings(None, variables, deep)
        self.assertEqual(found["training"], {"batch": 16, "precision": "bf16"})
        self.assertEqual(found["buffers"], {"compress": False})

    def test_takes_a_named_file_and_a_dict(self):
        path = self.write('{"gc": {"threshold0": 700}}', "other.json")
        self.assertEqual(self.read(path), {"gc": {"threshold0": 700}})
        self.assertEqual(self.read(PLIMSOLL_CONFIG=path), {"gc": {"threshold0": 700}})
        self.assertEqual(self.read({"memoryLimitBytes": 8}), {"memoryLimitBytes": 8})

    def test_refuses_what_is_wrong_in_one_line(self):
        told = self.refused("unknown-key", {"gc": {"treshold0": 1}})
        self.assertIn('Did you mean "threshold0"?', told)
        self.refused("bad-config-value", {"training": {"batch": 2.5}})
        self.refused("bad-config-value", {"training": {"batch": True}})
        self.refused("bad-config-value", {"training": {"batch": 0}})
        self.refused("bad-config-value", {"training": {"precision": "fp8"}})
        self.refused("bad-config-value", {"gc": 3})
        self.refused("bad-config-value", {"gpus": [{"name": "Ours"}]})
        self.refused("bad-config-value", {}, PLIMSOLL_TRAINING_BATCH="many")
        self.refused("unreadable-config-file", os.path.join(self.folder.name, "none.json"))
        for text in ("{", '{"a": 1, "a": 2}', b"\xff\xfe", "[" * 100_000):
            self.refused("bad-config-file", self.write(text))
        self.refused("config-file-too-large", self.write(" " * (256 * 1024 + 1)))

    def test_takes_no_file_of_another_user_that_was_only_found(self):
        if not hasattr(os, "getuid") or os.getuid() != 0:
            self.skipTest("only root can give a file to another user")
        path = self.write("{}")
        os.chown(path, 12345, 12345)
        self.refused("foreign-config-file")
        self.assertEqual(self.read(path), {})

    def test_answers_settings_or_a_failure_whatever_the_document_is(self):
        draw = random.Random(7)
        atoms = [None, True, 0, -1, 2.5, 1e308, "", "x", [], {}, "PLIMSOLL", [1], [{}]]
        paths = [path for path, _ in leaves()]
        for _ in range(2000):
            document = {}
            for _ in range(draw.randrange(4)):
                at = document
                *above, last = draw.choice(paths)
                for key in above:
                    at = at.setdefault(key, {})
                    at = at if isinstance(at, dict) else {}
                at[last] = draw.choice(atoms)
            try:
                self.assertEqual(checked(document, "test"), document)
            except Failure:
                continue

    def test_names_variables_as_the_command_does(self):
        self.assertEqual(variable_of(("alerts", "enabled", "out-of-memory-risk")),
                         "PLIMSOLL_ALERTS_ENABLED_OUT_OF_MEMORY_RISK")  # fmt: skip

    def test_takes_the_example_of_the_documentation(self):
        page = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "configuration.md")
        with open(page, encoding="utf-8") as file:
            example = file.read().split("## Jobs and sessions")[1].split("```json\n")[1]
        document = json.loads(example.split("```")[0])
        self.assertEqual(self.read(document), document)


if __name__ == "__main__":
    unittest.main()
