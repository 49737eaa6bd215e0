"""`rhizome replay`: what it prints for people and programs, from where it takes traces, and calls that are wrong."""
import json
import pathlib
import shutil
import subprocess
import unittest

import program

LINE = '{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2]}\n'
ORDERS = ['lru', 'lru_leaf', 'fifo', 's3fifo', 'sieve', 'arc', 'index', 'min']


class Replay(program.Case):
    def replay(self, *words):
        return self.call('replay', *words)

    def rows(self, *words):
        done = self.replay(*words, '--json')
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def file(self, text, name='trace.jsonl'):
        path = self.folder / name
        path.write_text(text)
        return path

    def test_a_bundled_trace_for_programs(self):
        rows = self.rows('synthetic', '--capacity', '1000,5%')
        self.assertEqual([(row['capacity'], row['capacity_blocks']) for row in rows],
                         [('1000', 1000), ('5%', 2196), ('infinite', 43924)])
        for row in rows:
            self.assertEqual((row['trace'], row['requests'], row['blocks'], row['distinct_blocks']),
                             ('synthetic', 3993, 121877, 43924))
            for share in ('block_hit_percent', 'token_hit_percent'):
                self.assertEqual(list(row[share]), ORDERS)
                self.assertLessEqual(max(row[share].values()), row[share]['min'])
        self.assertEqual(f'{rows[0]["block_hit_percent"]["lru"]:.2f}', '8.25')
        self.assertEqual(f'{rows[1]["token_hit_percent"]["min"]:.2f}', '40.30')
        self.assertEqual({f'{value:.2f}' for value in rows[2]['block_hit_percent'].values()}, {'63.96'})

    def test_a_table_for_people(self):
        done = self.replay('conversation', '--capacity', '1000')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('12,031 requests, 288,500 blocks, 182,790 of them distinct', done.stdout)
        self.assertRegex(done.stdout, r'(?m)^ +1000 +4\.45 ')
        self.assertRegex(done.stdout, r'(?m)^ +infinite( +36\.64){8}$')
        self.assertEqual(done.stdout.count('\n    capacity' + ''.join(f'{name:>10}' for name in ORDERS)), 2)
        self.assertIn('rhizome replay: a cache of 1,000 blocks\n', done.stderr)

    def test_a_file_plain_or_compressed(self):
        path = self.file(LINE * 3)
        plain = self.rows(path, '--capacity', '1')
        self.assertEqual(plain[0]['block_hit_percent']['min'], 100 * 2 / 6)
        self.assertEqual(plain[1]['block_hit_percent']['lru'], 100 * 4 / 6)
        bundled = program.BUILD / 'share' / 'rhizome' / 'traces' / 'synthetic.jsonl.zst'
        shutil.copy(bundled, self.folder / 'copy')
        named = self.rows('synthetic', '--capacity', '100')
        copied = self.rows(self.folder / 'copy', '--capacity', '100')
        self.assertEqual([row['block_hit_percent'] for row in named], [row['block_hit_percent'] for row in copied])

    def test_installed_it_finds_its_traces(self):
        installed = self.folder / 'prefix' / 'bin' / 'rhizome'
        installed.parent.mkdir(parents=True)
        shutil.copy(program.PROGRAM, installed)
        call = [installed, 'replay', 'synthetic', '--capacity', '100']
        done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=program.PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^rhizome replay: the trace '.*/prefix/share/.*' does not exist\n$")
        shutil.copytree(program.BUILD / 'share' / 'rhizome' / 'traces', self.folder / 'prefix/share/rhizome/traces')
        done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=program.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_wrong_calls_and_wrong_traces_say_what_would_be_right(self):
        good = self.file(LINE)
        cases = [
            (2, ['nowhere.jsonl'], "the trace 'nowhere.jsonl' does not exist; give a file, or"),
            (2, [good, '--capacity', '0'], "--capacity: '0' holds nothing"),
            (2, [good, '--capacity', '5,0%'], "--capacity: '0%' holds nothing"),
            (2, [good, '--capacity', 'many'], "--capacity: 'many' must be a number of blocks"),
            (2, [good, '--capacity'], '--capacity'),
            (2, [good, '--order', 'lru'], '--order'),
            (2, [], 'TRACE'),
            (1, [self.file('', 'empty')], "empty': it holds no requests"),
            (1, [self.file(LINE + 'once upon a time\n', 'text')], "text': line 2 is no request of a trace"),
            (1, [self.file(LINE + LINE[:40], 'cut')], "cut': line 2 is no request"),
            (1, [program.PROGRAM], "rhizome': line 1 is no request"),
            (1, [pathlib.Path('/')], "the trace '/'"),
        ]
        for status, words, said in cases:
            with self.subTest(words=words):
                done = self.replay(*words)
                self.assertEqual((done.returncode, done.stdout), (status, ''), done.stderr)
                self.assertTrue(done.stderr.startswith('rhizome replay: '), done.stderr)
                self.assertIn(said, done.stderr)
                self.assertEqual(done.stderr.count('\n'), 1, done.stderr)


if __name__ == '__main__':
    unittest.main()
