"""`rhizome inspect`: a directory of the disk tier while it is open and after its process was killed, one segment, one
image; damage in each, and bytes that are nothing of the kind."""
import hashlib
import json
import os
import pathlib
import random
import struct
import subprocess
import time
import unittest

import program

# The test of the disk tier that is killed in the middle of its work: it writes until then.
WRITER = program.BUILD / 'tests' / 'rhizome_tier_disk_test'
PAGE = 4096


def image_of(tokens, position=0, payload=b'rows' * 100, key=None):
    """A wire image, codec raw, opaque layout (docs/codec.md)."""
    keyspace, parent = b'k' * 32, b'p' * 32
    count, tokens_bytes = struct.pack('<I', len(tokens)), struct.pack(f'<{len(tokens)}I', *tokens)
    identity = keyspace + parent + struct.pack('<I', position) + count + tokens_bytes
    identity += bytes(-len(identity) % 64)
    chained = hashlib.sha256(parent + count + tokens_bytes).digest()
    head = b'RZB1' + struct.pack('<4BH5H2I', 1, 0, 255, 255, 0, 0, len(tokens), 0, 0, 0, len(payload),
                                 len(identity + payload)) + (key or chained)[:16] + keyspace[:8]
    return head + hashlib.sha256(head + identity + payload).digest() + identity + payload


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


class Inspect(program.Case):
    def setUp(self):
        super().setUp()
        self.disk = self.folder / 'disk'

    def inspect(self, path, status):
        """What it says to people and to programs."""
        said = self.call('inspect', path)
        self.assertEqual(said.returncode, status, said.stdout + said.stderr)
        told = self.call('inspect', path, '--json')
        self.assertEqual((told.returncode, told.stderr), (status, ''))
        return said.stdout, json.loads(told.stdout)

    def start_writer(self):
        running = subprocess.Popen([WRITER, '--gtest_filter=DiskKillChild.*'], stdout=subprocess.DEVNULL,
                                   env={**self.environment, 'RHIZOME_TEST_DISK_CHILD': str(self.disk)})
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        return running

    def wait_for_images(self, count):
        end = time.monotonic() + program.PATIENCE
        while time.monotonic() < end:
            done = self.call('inspect', self.disk, '--json')
            if done.stdout and json.loads(done.stdout)['images'] >= count:
                return
        self.fail('the writer does not write')

    def written(self):
        """A directory with some segments, whose process was killed."""
        writer = self.start_writer()
        self.wait_for_images(100)
        writer.kill()
        writer.wait()
        # What it gave to the device may still be on its way there: this waits for it, and changes nothing.
        for path in self.disk.glob('segment-*'):
            with open(path, 'r+b') as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)

    def sealed(self):
        found = self.inspect(self.disk, 0)[1]
        return next(one['name'] for one in found['segments'] if one['condition'] == 'sealed')

    def damage(self, name, offset, text=b'damage'):
        with open(self.disk / name, 'r+b') as file:
            file.seek(offset)
            file.write(text)

    def test_while_it_is_open(self):
        writer = self.start_writer()
        self.wait_for_images(10)
        said = self.call('inspect', self.disk)
        self.assertIn('; a living process has it open', said.stdout)
        self.assertTrue(json.loads(self.call('inspect', self.disk, '--json').stdout)['live'])
        self.assertIsNone(writer.poll(), 'it is not disturbed')

    def test_after_a_kill_everything_verifies(self):
        self.written()
        before = {path.name: path.read_bytes() for path in self.disk.iterdir()}
        said, told = self.inspect(self.disk, 0)
        self.assertFalse(told['live'])
        self.assertIn('\neverything verifies\n', said)
        self.assertGreater(told['images'], 50)
        self.assertEqual(len(told['segments']), 4)
        self.assertTrue(any(one['identities'] == one['images'] > 0 for one in told['segments']))
        self.assertEqual(before, {path.name: path.read_bytes() for path in self.disk.iterdir()}, 'nothing is changed')

    def test_damage_in_each_place_is_named(self):
        self.written()
        name = self.sealed()
        whole = (self.disk / name).read_bytes()
        bytes_ = json.loads(self.call('inspect', self.disk / name, '--json').stdout)['segment_bytes']
        for offset, why in ((PAGE, 'there is no record on the disk where one was written'),
                            (PAGE + 30, "the checksum of a record's head on the disk is wrong"),
                            (PAGE + 500, 'the checksum of an image on the disk is wrong'),
                            (PAGE + 2000, 'the checksum of an image on the disk is wrong'),
                            (16, 'its header cannot be read')):
            with self.subTest(offset=offset):
                self.damage(name, offset)
                said, told = self.inspect(self.disk / name, 1)
                self.assertIn(why, said)
                self.assertFalse(told['verifies'])
                self.assertIn(why, [told['fault'], *(one['why'] for one in told['faults'])])
                self.assertEqual(self.call('inspect', self.disk).returncode, 1)
                (self.disk / name).write_bytes(whole)
        # Where the body of the footer begins: its number of keyspaces.
        body = whole.rindex(struct.pack('<I', 1) + whole[PAGE + 108 + 84:][:32], PAGE, bytes_)
        self.damage(name, body + 40)
        said, told = self.inspect(self.disk / name, 1)
        self.assertEqual((told['condition'], told['fault']), ('not sealed', 'the checksum of a footer is wrong'))
        self.assertGreater(told['images'], 0, 'the records are found without it')
        self.damage(name, PAGE)
        told = self.inspect(self.disk / name, 1)[1]
        self.assertEqual((told['condition'], told['fault']), ('empty', 'the checksum of a footer is wrong'))

    def test_a_file_that_was_cut(self):
        self.written()
        name = self.sealed()
        for pages in (3, 1):
            os.truncate(self.disk / name, pages * PAGE)
            said, told = self.inspect(self.disk / name, 1)
            self.assertEqual(told['fault'], 'the file is shorter than its header says')
            self.assertIn(told['fault'], said)

    def test_an_image(self):
        path = self.folder / 'image'
        good = image_of([5, 6, 7], position=32)
        path.write_bytes(good)
        said, told = self.inspect(path, 0)
        self.assertEqual((told['kind'], told['codec'], told['block_tokens'], told['position'], told['raw_bytes']),
                         ('image', 'raw', 3, 32, 400))
        self.assertIn('everything verifies', said)
        for bad, why in ((good[:-1] + b'!', 'the SHA-256 of the image differs'),
                         (good[:-1], 'the encoded length is not what is there'),
                         (good[:50], 'the image is shorter than its header'),
                         (good[:4] + b'\x09' + good[5:], 'the image has a version that is not known here'),
                         (image_of([5, 6, 7], key=b'z' * 32), 'the key is not that of the parent and the tokens')):
            with self.subTest(why=why):
                path.write_bytes(bad)
                said, told = self.inspect(path, 1)
                self.assertIn(why, said)
                self.assertEqual(told['fault'], why)

    def test_garbage(self):
        chance = random.Random(3)
        for number in range(40):
            # Some begin like something.
            head = chance.choice([b'', b'RZB1', b'RZSG\x01\0\0\0', b'RZSG'])
            path = self.folder / chance.choice(['file', 'segment-00001'])
            path.write_bytes(head + chance.randbytes(chance.choice([0, 3, 100, 5000, 70000])))
            done = self.call('inspect', path)
            is_empty_segment = path.name == 'segment-00001' and not path.read_bytes()
            self.assertEqual(done.returncode, 0 if is_empty_segment else 1, (number, done.stdout, done.stderr))

    def test_a_segment_that_was_never_written_has_the_number_of_its_name(self):
        self.disk.mkdir(mode=0o700)
        for name in ('segment-00000', 'segment-00007'):
            (self.disk / name).touch()
        _, told = self.inspect(self.disk, 0)
        self.assertEqual([one['segment'] for one in told['segments']], [0, 7])
        self.assertEqual([one['generation'] for one in told['segments']], [0, 0])

    def test_pipes_and_links_are_not_waited_for(self):
        self.disk.mkdir(mode=0o700)
        for name in ('lock', 'segment-00001', 'pipe'):
            os.mkfifo(self.disk / name)
        (self.disk / 'segment-00002').symlink_to('/dev/zero')
        (self.disk / 'segment-00003').mkdir()
        _, told = self.inspect(self.disk, 1)
        self.assertEqual([one['condition'] for one in told['segments']], ['unreadable'] * 3)
        self.assertEqual([one['fault'] for one in told['segments']],
                         ['not a regular file', 'cannot open the file', 'not a regular file'])
        self.inspect(self.disk / 'segment-00001', 1)
        self.assertIn('is no segment', self.call('inspect', self.disk / 'pipe').stderr)

    def test_a_file_does_not_say_how_much_memory_it_takes(self):
        length, record = 64 << 30, 32 << 30
        head = struct.pack('<4s3I2Q', b'RZSG', 1, 1, 0, 5, length) + bytes(28)
        body = struct.pack('<4sI2Q32s2Q', b'RZDR', 1, 5, 1, b'k' * 32, record, 0) + bytes(32)
        self.disk.mkdir(mode=0o700)
        with open(self.disk / 'segment-00001', 'wb') as file:
            file.truncate(length)
            for offset, text in ((0, head), (PAGE, body)):
                file.seek(offset)
                file.write(text + struct.pack('<I', crc32c(text)))
        _, told = self.inspect(self.disk / 'segment-00001', 1)
        self.assertEqual([one['why'] for one in told['faults']], ['it is longer than an image can be'])

    def test_calls_that_are_wrong(self):
        for words, status, what in (([], 2, 'inspect needs a PATH'), (['a', 'b'], 2, 'inspect takes one PATH'),
                                    (['--verbose', 'a'], 2, 'inspect takes one PATH'),
                                    ([self.folder / 'none'], 1, 'cannot open the file'),
                                    (['/dev/null'], 1, 'is no segment of a disk tier and no image of a block')):
            with self.subTest(words=words):
                done = self.call('inspect', *words)
                self.assertEqual((done.returncode, done.stdout), (status, ''))
                self.assertIn(what, done.stderr)
        done = self.call('inspect', '--help')
        self.assertEqual(done.returncode, 0)
        self.assertIn('\n  rhizome inspect ', done.stdout)
        empty = pathlib.Path(self.folder) / 'empty'
        empty.mkdir()
        self.assertIn('there is no segment', self.inspect(empty, 0)[0])


if __name__ == '__main__':
    unittest.main()
