"""`rhizome serve`: how it starts, what it passes on, how it stops, and what it says at the end."""
import json
import os
import re
import signal
import socket
import time
import unittest
import urllib.error
import urllib.request

import program


def words_of(pid):
    with open(f'/proc/{pid}/cmdline', 'rb') as words:
        return words.read().decode().split('\0')[1:-1]


class Serve(program.Case):
    def test_serves_and_stops_in_order(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                running = self.serve()
                self.assertEqual(json.loads(running.get('/health')), {'status': 'ok'})
                self.assertEqual(running.complete()['usage']['completion_tokens'], 4)
                self.assertEqual(self.pages(), [f'counters-{running.process.pid}', 'node.pid', 'node.sock',
                                                'node.sock.keeper'])
                child = program.Watched(running.child())
                begin = time.monotonic()
                running.process.send_signal(number)
                status, said, output = running.finish()
                self.assertLess(time.monotonic() - begin, 5)
                self.assertEqual(status, 0, said)
                self.assertEqual(output, '')
                self.assertRegex(said, r'(?m)^rhizome: (1 prompt|no prompt was looked up)')
                self.assertTrue(child.wait())
                self.assertEqual(self.pages(), [])

    def test_passes_flags_on_in_order(self):
        running = self.serve('--memory', '1GiB', '--temp', '-1', '--block-tokens=32', '-np', '2')
        self.assertEqual(words_of(running.child()),
                         ['-m', str(program.MODEL), '-t', '1', '-c', '512', '--port', '0', '--temp', '-1', '-np', '2',
                          '-kvu', '--cache-ram', '0', '--ctx-checkpoints', '0'])
        with open(f'/proc/{running.child()}/environ', 'rb') as variables:
            seen = variables.read().decode().split('\0')
        self.assertIn('RHIZOME_BLOCK_TOKENS=32', seen)
        self.assertIn(f'RHIZOME_MEMORY={1 << 30}', seen)

    def test_exact_gives_each_conversation_its_context(self):
        running = self.serve('--exact', '-np', '3')
        slots = json.loads(running.get('/slots'))
        self.assertEqual([slot['n_ctx'] for slot in slots], [512] * 3)

    def test_off_is_the_stock_server(self):
        running = self.serve('--off')
        child = running.child()
        self.assertEqual(os.path.realpath(f'/proc/{child}/exe'), os.path.realpath(program.STOCK_SERVER))
        self.assertEqual(words_of(child), ['-m', str(program.MODEL), '-t', '1', '-c', '512', '--port', '0'])
        with open(f'/proc/{child}/maps', encoding='utf-8') as maps:
            self.assertNotIn('librhizome_llama', maps.read())
        running.process.send_signal(signal.SIGTERM)
        status, said, _ = running.finish()
        self.assertEqual(status, 0)
        self.assertNotIn('rhizome:', said)

    def test_what_llama_server_refuses_reaches_the_person(self):
        done = self.call('serve', '-m', program.MODEL, '--frobnicate')
        self.assertEqual(done.returncode, 1)
        self.assertIn('invalid argument: --frobnicate', done.stderr)
        self.assertIn('rhizome: error: llama-server ended with status 1', done.stderr)
        done = self.call('serve', '--', '--version')
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_port_in_use(self):
        with socket.create_server(('127.0.0.1', 0)) as taken:
            port = taken.getsockname()[1]
            done = self.call('serve', '-m', program.MODEL, '-t', '1', '-c', '512', '--port', port)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"couldn't bind HTTP server socket, hostname: 127.0.0.1, port: {port}", done.stderr)
            done = self.call('serve', '-m', program.MODEL, '--metrics-port', port)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr, f'rhizome: error: --metrics-port {port}: the port is in use; give another, '
                                          'or 0 for a free one\n')
        self.assertEqual(self.pages(), [])

    def test_metrics(self):
        running = self.start('serve', '-m', program.MODEL, '-t', '1', '-c', '512', '--port', '0', '--metrics-port', '0')
        metrics = running.wait_for_line(r'metrics at (http://127\.0\.0\.1:\d+)/metrics')[1]
        running.wait_until_listening()
        text = running.get('/metrics', metrics)
        for name in ('rhizome_tokens_looked_up_total', 'rhizome_restore_seconds_total', 'phantom_cache_hits_total'):
            self.assertRegex(text, rf'(?m)^{name} \d')
        self.assertEqual(json.loads(running.get('/health', metrics)), {'status': 'ok'})
        with self.assertRaises(urllib.error.HTTPError) as refused:
            running.get('/v1/models', metrics)
        self.assertEqual(refused.exception.code, 404)

    def test_the_server_dies_with_us(self):
        running = self.serve()
        child = program.Watched(running.child())
        running.process.kill()
        self.assertTrue(child.wait(), 'llama-server outlived us')

    def test_a_killed_server_is_reported(self):
        running = self.serve()
        os.kill(running.child(), signal.SIGKILL)
        status, said, _ = running.finish()
        self.assertEqual(status, 128 + signal.SIGKILL)
        self.assertIn('rhizome: error: llama-server was ended by signal 9 (SIGKILL)', said)
        self.assertEqual(self.pages(), [])

    def test_what_was_restored_is_said_everywhere(self):
        running = self.start('serve', '-m', program.MODEL, '-t', '1', '-c', '1024', '--port', '0', '-np', '2',
                             '--metrics-port', '0', '--json', **program.LOGS_WEIGHTS)
        metrics = running.wait_for_line(r'metrics at (http://127\.0\.0\.1:\d+)/metrics')[1]
        running.wait_until_listening()
        running.wait_for_weights()
        prompt = 'A rhizome is a root that spreads sideways and feeds many stems. ' * 20
        first = running.complete(prompt, id_slot=0)['usage']
        second = running.complete(prompt, id_slot=1)['usage']
        self.assertEqual(first['prompt_tokens_details']['cached_tokens'], 0)
        cached = second['prompt_tokens_details']['cached_tokens']
        self.assertGreater(cached, first['prompt_tokens'] // 2)

        text = running.get('/metrics', metrics)
        def total(name):
            return sum(float(value) for value in re.findall(rf'(?m)^{name}(?:{{[^}}]*}})? (\S+)$', text))
        self.assertEqual(total('rhizome_tokens_restored_total'), cached)
        self.assertEqual(total('rhizome_tokens_looked_up_total'), 2 * first['prompt_tokens'])
        self.assertEqual((total('phantom_cache_hits_total'), total('phantom_cache_misses_total')), (1, 1))
        self.assertGreater(total('phantom_blocks_used'), 0)
        self.assertGreater(total('phantom_blocks_total'), total('phantom_blocks_used'))

        running.process.send_signal(signal.SIGTERM)
        status, _, output = running.finish()
        self.assertEqual(status, 0)
        self.assertEqual(output.count('\n'), 1)
        summary = json.loads(output)
        self.assertEqual((summary['lookups'], summary['lookups_hit']), (2, 1))
        self.assertEqual(sum(summary['tokens_restored'].values()) + summary['tokens_kept'], cached)
        # llama-server's own warm-up, four rows, is computed too.
        self.assertIn(summary['tokens_computed']['prompt'] - (2 * first['prompt_tokens'] - cached), range(9))
        self.assertGreater(summary['seconds_saved'], 0)

    def test_salts_keep_rows_apart(self):
        running = self.serve('-np', '2', **program.LOGS_WEIGHTS)
        running.wait_for_weights()
        prompt = 'A rhizome is a root that spreads sideways and feeds many stems. ' * 20

        def cached(salt):
            return running.complete(prompt, cache_salt=salt)['usage']['prompt_tokens_details']['cached_tokens']
        self.assertEqual(cached('a'), 0)
        self.assertEqual(cached('b'), 0)
        self.assertGreater(cached('a'), 100)
        for wrong in ('a\0b', 7, ['a']):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                cached(wrong)
            self.assertEqual(refused.exception.code, 400, wrong)
        self.assertGreater(cached('b'), 100)

    def test_an_idle_conversation_goes_on_to_the_token(self):
        running = self.start('serve', '-m', program.MODEL, '-t', '1', '-c', '1024', '--port', '0', '-np', '2',
                             '--metrics-port', '0', **program.LOGS_WEIGHTS)
        metrics = running.wait_for_line(r'metrics at (http://127\.0\.0\.1:\d+)/metrics')[1]
        running.wait_until_listening()
        running.wait_for_weights()
        first = 'A rhizome is a root that spreads sideways and feeds many stems. ' * 10 + 'It is white'
        answer = running.complete(first, id_slot=0)
        running.complete('Something else that nobody has said before. ' * 20, id_slot=1)
        self.assertRegex(running.get('/metrics', metrics), r'(?m)^rhizome_sequences_parked_total 1$')
        again = running.complete(first + answer['choices'][0]['text'] + ' And then', id_slot=0)
        # Also what lies behind the last whole block.
        prompt = answer['usage']['prompt_tokens']
        self.assertGreater(prompt % 16, 2, prompt)
        self.assertGreaterEqual(again['usage']['prompt_tokens_details']['cached_tokens'], prompt - 1)
        state = running.get('/metrics', metrics)
        self.assertRegex(state, r'(?m)^rhizome_tokens_restored_total\{source="slab"\} [1-9]')

    def test_the_summary_is_one_block(self):
        running = self.serve()
        running.complete('The same words again and again. ' * 20)
        running.process.send_signal(signal.SIGTERM)
        _, said, _ = running.finish()
        block = said[said.index('rhizome: 1 prompt\n'):].splitlines()
        self.assertEqual([line[2:13].strip() for line in block[1:]],
                         ['looked up', 'restored', 'kept', 'computed', 'time saved', 'stored', 'stopped'])


if __name__ == '__main__':
    unittest.main()
