"""Blocks that outlive the server: an orderly end, kill -9, two servers on one directory, a directory that cannot be."""
import json
import signal
import time

import program

PROMPT = 'A rhizome is a root that spreads sideways and feeds many stems. ' * 20
WORDS = ('-np', '2', '--disk', '64MiB', '--exact', '-c', '1024')


class Disk(program.Case):
    def setUp(self):
        super().setUp()
        self.blocks = self.folder / 'cache' / 'rhizome' / 'blocks'

    def serve_disk(self, *words):
        return self.serve_measured(*WORDS, *words)

    def images(self):
        """How many are in the files, read by another process."""
        done = self.call('inspect', '--json', self.blocks)
        return json.loads(done.stdout)['images']

    def wait_for_files(self, running):
        """Until all blocks are in the files: a write that is done may still be in a buffer."""
        deadline = time.monotonic() + program.PATIENCE
        while self.images() < self.value(running, 'rhizome_blocks_exported_total'):
            self.assertLess(time.monotonic(), deadline, 'blocks do not get to the disk')

    def answer(self, running, **wishes):
        answer = running.complete(PROMPT, max_tokens=12, **wishes)
        cached = answer['usage']['prompt_tokens_details']['cached_tokens']
        return answer['choices'][0]['text'], cached, answer['usage']['prompt_tokens']

    def expect_warm(self, running, text):
        again, cached, prompt = self.answer(running)
        self.assertEqual(again, text)
        self.assertGreater(cached, prompt - 32)
        self.assertGreater(self.value(running, 'rhizome_tokens_restored_total{source="disk"}'), prompt - 32)
        self.assertEqual(self.value(running, 'rhizome_identity_mismatches_total{tier="disk"}'), 0)

    def test_an_orderly_end_writes_what_is_left(self):
        running = self.serve_disk()
        text, cached, _ = self.answer(running)
        self.assertEqual(cached, 0)
        began = time.monotonic()
        running.process.send_signal(signal.SIGTERM)
        status, said, _ = running.finish()
        self.assertEqual(status, 0, said)
        self.assertLess(time.monotonic() - began, 5)
        self.assertRegex(said, r'\n  disk +wrote \d+ blocks?')
        self.expect_warm(self.serve_disk(), text)

    def test_a_killed_server_leaves_its_blocks(self):
        # The host's node would leave its memory, too (host_test.py).
        running = self.serve_disk('--attach', 'none')
        text, _, _ = self.answer(running)
        self.wait_for_files(running)
        child = program.Watched(running.child())
        running.process.kill()
        self.assertTrue(child.wait())
        self.expect_warm(self.serve_disk('--attach', 'none'), text)

    def test_of_two_servers_one_has_the_disk(self):
        first = self.serve_disk()
        text, _, _ = self.answer(first)
        second = self.serve_disk('--attach', 'none')
        self.assertTrue(any('another process keeps blocks in' in line for line in second.said), second.said)
        again, cached, _ = self.answer(second)
        self.assertEqual((again, cached), (text, 0))
        self.assertEqual(self.answer(first)[0], text)

    def test_a_directory_that_cannot_be(self):
        blocked = self.folder / 'file'
        blocked.write_text('not a directory')
        running = self.serve_disk('--cache-dir', blocked / 'below')
        self.assertTrue(any('no blocks are kept on disk' in line for line in running.said), running.said)
        text, cached, _ = self.answer(running, id_slot=0)
        self.assertEqual(cached, 0)
        again, cached, _ = self.answer(running, id_slot=1)
        self.assertEqual(again, text)
        self.assertGreater(cached, 100)

    def test_inspect_reads_what_a_server_left(self):
        running = self.serve_disk()
        self.answer(running)
        running.process.send_signal(signal.SIGTERM)
        running.finish()
        done = self.call('inspect', self.blocks)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == '__main__':
    import unittest
    unittest.main()
