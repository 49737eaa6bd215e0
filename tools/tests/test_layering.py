"""tools/layering.py refuses what it promises to refuse, and nothing else."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / 'layering.py'
# name|uses|public|own|tests|test_uses|test headers
LAYERS = """\
low||low.h|low.cc|low_test.cc||low_fixture.h
low/leaf|low|leaf.h||||
other|||other.cc|||
middle|low|middle.h|private.h middle.cc|middle_test.cc|low/leaf|
high|middle||high.cc|high_test.cc||
"""


class Layering(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.stamp = self.root / 'stamp'
        for line in LAYERS.splitlines():
            name, _, public, own, tests, _, fixtures = line.split('|')
            for file in f'{public} {own} {tests} {fixtures}'.split():
                self.write(f'{name}/{file}', '#include <vector>\n')

    def write(self, name, text):
        path = self.root / 'src' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def said(self):
        (self.root / 'layers.txt').write_text(LAYERS)
        done = subprocess.run([sys.executable, SCRIPT, self.root / 'src', self.root / 'layers.txt', self.stamp],
                              text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode == 0, self.stamp.exists())
        return done.stderr if done.returncode else 'fine'

    def test_a_clean_tree_passes(self):
        self.write('middle/middle.cc', '#include "middle/middle.h"\n#include "middle/private.h"\n#include "low/low.h"\n')
        self.write('middle/middle_test.cc', '#include "low/leaf/leaf.h"\n#include "low/low_fixture.h"\n')
        self.assertEqual(self.said(), 'fine')

    def refused(self, name, line, why):
        self.write(name, line + '\n')
        self.assertIn(why, self.said())

    def test_an_upward_include(self):
        self.refused('low/low.cc', '#include "middle/middle.h"', 'layer low does not name middle')

    def test_a_sibling(self):
        self.refused('other/other.cc', '#include "low/low.h"', 'layer other does not name low')

    def test_a_parent_that_reaches_into_its_leaf(self):
        self.refused('low/low.cc', '#include "low/leaf/leaf.h"', 'layer low does not name low/leaf')

    def test_a_layer_that_is_reached_only_through_another(self):
        self.refused('high/high.cc', '#include "low/low.h"', 'layer high does not name low')

    def test_a_private_header_of_another_layer(self):
        self.refused('high/high.cc', '#include "middle/private.h"', '"middle/private.h" is private to middle')

    def test_a_climb(self):
        self.refused('high/high.cc', '#include "../middle/middle.h"', 'climbs out of its layer')

    def test_a_computed_include(self):
        self.refused('low/low.cc', '#include LOW_HEADER', 'computed include')

    def test_a_file_that_no_layer_lists(self):
        self.refused('low/forgotten.cc', '', 'listed by no layer')

    def test_a_listed_file_that_is_not_there(self):
        (self.root / 'src/low/low.cc').unlink()
        self.assertIn('layer low lists low.cc, which is not there', self.said())

    def test_a_test_that_uses_a_layer_it_does_not_name(self):
        self.refused('high/high_test.cc', '#include "low/leaf/leaf.h"', 'layer high does not name low/leaf')

    def test_a_test_header_outside_of_tests(self):
        self.refused('middle/middle.cc', '#include "low/low_fixture.h"', 'is private to low')
        self.refused('low/low.cc', '#include "low/low_fixture.h"', 'is for tests only')


if __name__ == '__main__':
    unittest.main()
