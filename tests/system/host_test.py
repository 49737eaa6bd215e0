"""One cache for all engines of a host: the daemon, servers that are the node or attach to it, and what happens when it
ends."""
import json
import os
import pathlib
import pty
import re
import resource
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

import program

BLOCK = 16
PROMPTS = [f'{name} is a root that spreads sideways and feeds many stems, and this is said again. ' * 14
           for name in ('A rhizome', 'A tuber', 'A bulb')]


class Host(program.Case):
    def setUp(self):
        super().setUp()
        self.runtime = self.folder / 'rhizome'
        self.socket = self.runtime / 'node.sock'

    def daemon(self, *words):
        running = self.start('daemon', '--memory', '256MiB', *words)
        running.wait_for_line(r'listening on \S+/node\.sock')
        return running

    def engine(self, *words):
        """A server whose answers do not depend on what is cached."""
        return self.serve_measured('-c', '1024', '-np', '2', '--exact', *words)

    def restored(self, running):
        return self.value(running, 'rhizome_tokens_restored_total{source="slab"}')

    def answers(self, running, prompts=PROMPTS):
        return [(answer['choices'][0]['text'], answer['usage']['prompt_tokens'])
                for answer in (running.complete(prompt, max_tokens=8) for prompt in prompts)]

    def expect_shared(self, first, second):
        """What the first has computed, the second does not."""
        answers = self.answers(first)
        before = self.restored(second)
        self.assertEqual(self.answers(second), answers)
        whole = sum((prompt - 1) // BLOCK * BLOCK for _, prompt in answers)
        self.assertGreaterEqual(self.restored(second) - before, 0.95 * whole)

    def said(self, running, pattern):
        """How often, so far."""
        while not running.lines.empty():
            line = running.lines.get()
            if line is not None:
                running.said.append(line)
        return sum(bool(re.search(pattern, line)) for line in running.said)

    def store_until(self, running, pattern):
        """Asks what nobody has asked before, until the server has said that."""
        deadline = time.monotonic() + program.PATIENCE
        count = 0
        while not self.said(running, pattern):
            self.assertLess(time.monotonic(), deadline, '\n'.join(running.said))
            count += 1
            running.complete(f'{running.process.pid} asks for the {count}th time. ' * 10, max_tokens=1)

    # --- the daemon

    def test_the_daemon_says_what_it_is_and_stops_in_order(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                running = self.daemon('--tenant', 'me', '--block-tokens', '32')
                self.assertEqual(self.pages(), [f'counters-{running.process.pid}', 'node.pid', 'node.sock',
                                                'node.sock.keeper'])
                self.assertEqual((self.runtime / 'node.pid').read_text(), f'{running.process.pid}\n')
                self.assertEqual(self.socket.stat().st_mode & 0o777, 0o600)
                self.assertEqual(self.runtime.stat().st_mode & 0o777, 0o700)
                self.assertRegex('\n'.join(running.said),
                                 rf'process {running.process.pid}: 256MiB of memory, no disk, blocks of 32 tokens, '
                                 'tenant me')
                begin = time.monotonic()
                running.process.send_signal(number)
                status, said, output = running.finish()
                self.assertLess(time.monotonic() - begin, 5)
                self.assertEqual((status, output), (0, ''), said)
                self.assertEqual(self.pages(), [])

    def test_there_is_one_daemon(self):
        first = self.daemon()
        done = self.call('daemon')
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertEqual(done.stderr, f'rhizome: error: process {first.process.pid} is this host\'s node already, at '
                                      f'{self.socket}\n')
        first.process.kill()
        first.process.wait()
        self.assertIn('node.sock', self.pages(), 'a killed one leaves it')
        second = self.daemon()
        self.assertEqual((self.runtime / 'node.pid').read_text(), f'{second.process.pid}\n')
        self.assertEqual(self.pages(), [f'counters-{second.process.pid}', 'node.pid', 'node.sock', 'node.sock.keeper'])

    def test_a_node_takes_all_descriptors_that_it_may(self):
        """Chunks and clients take descriptors, and most systems give a thousand to begin with."""
        given = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, given[1]), given[1]))
        try:
            node = self.daemon()
            inherited = self.call('run', '--attach', self.socket, '--', 'sh', '-c', 'ulimit -Sn').stdout
            alone = self.call('run', '--attach', 'none', '--', 'sh', '-c', 'ulimit -Sn').stdout
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, given)
        children = pathlib.Path(f'/proc/{node.process.pid}/task/{node.process.pid}/children').read_text().split()
        self.assertEqual(len(children), 1, 'the keeper')
        for process in (node.process.pid, *map(int, children)):
            self.assertEqual(resource.prlimit(process, resource.RLIMIT_NOFILE), (given[1], given[1]))
        # What is started gets what there was.
        self.assertEqual((inherited, alone), (f'{min(256, given[1])}\n',) * 2)

    def test_calls_of_the_daemon(self):
        done = self.call('daemon', '--help')
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertIn('\n  rhizome daemon ', done.stdout)
        cases = [(['--exact'], 2, 'for serve and run'), (['--attach', 'none'], 2, 'for serve and run'),
                 (['--memory', '12'], 2, 'a size needs a unit'), (['now'], 2, 'now'),
                 (['--redis', 'x'], 2, 'no Redis tier'), (['--memory', '1KiB'], 1, '1KiB')]
        for words, status, part in cases:
            with self.subTest(words=words):
                done = self.call('daemon', *words)
                self.assertEqual((done.returncode, done.stdout), (status, ''), done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(part, done.stderr)

    def test_engines_share_the_memory_of_the_daemon(self):
        node = self.daemon('--metrics-port', '0')
        first = self.engine()
        second = self.engine('--memory', '1GiB', '--disk', '64MiB')
        for running in (first, second):
            self.assertEqual(self.said(running, f'attached to the node of process {node.process.pid}: 256MiB of '), 1)
        self.assertEqual(self.said(first, 'not used'), 0)
        self.assertEqual(self.said(second, '--memory and --disk: not used'), 1)
        self.expect_shared(first, second)
        # An attached engine knows why its look-ups stop, as one with a cache of its own does.
        diverged = 'rhizome_lookup_stopped_total{reason="diverged"}'
        before = self.value(second, diverged)
        second.complete(PROMPTS[0][:400] + ' Nobody has said this. ' * 10)
        self.assertEqual(self.value(second, diverged), before + 1)
        node.metrics = next(re.search(r'http://127\.0\.0\.1:\d+', line)[0] for line in node.said if 'metrics' in line)
        self.assertEqual(self.value(node, 'rhizome_clients_attached'), 2)
        self.assertEqual(self.value(node, 'rhizome_keeper_present'), 1)
        self.assertEqual(self.value(node, 'rhizome_clients_dropped_total{reason="misuse"}'), 0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
            stranger.connect(str(self.socket))
            stranger.send(b'this makes no sense')
            self.assertEqual(stranger.recv(100), b'')
        self.assertEqual(self.value(node, 'rhizome_clients_dropped_total{reason="misuse"}'), 1)
        first.process.send_signal(signal.SIGTERM)
        status, said, _ = first.finish()
        self.assertEqual(status, 0, said)
        # What one of them has left is there for the next.
        self.expect_shared(second, self.engine())

    def test_what_the_daemon_wrote_outlives_it(self):
        node = self.daemon('--disk', '64MiB')
        engine = self.engine()
        answers = self.answers(engine, PROMPTS[:1])
        for running in (engine, node):
            running.process.send_signal(signal.SIGTERM)
            self.assertEqual(running.finish()[0], 0)
        self.daemon('--disk', '64MiB')
        again = self.engine()
        # One prompt: what loading and computing cost is not known before, so that what is on disk is loaded.
        self.assertEqual(self.answers(again, PROMPTS[:1]), answers)
        whole = (answers[0][1] - 1) // BLOCK * BLOCK
        self.assertGreaterEqual(self.value(again, 'rhizome_tokens_restored_total{source="disk"}'), 0.9 * whole)

    def test_a_killed_daemon_comes_back_warm(self):
        node = self.daemon()
        # These do not become the node when it is gone.
        engines = [self.engine('--attach', str(self.socket)) for _ in range(2)]
        answers = self.answers(engines[0])
        self.assertEqual(self.answers(engines[1]), answers)
        before = self.restored(engines[1])
        self.assertGreater(before, 0)
        for engine in engines:
            engine.process.send_signal(signal.SIGTERM)
            self.assertEqual(engine.finish()[0], 0)
        node.process.kill()
        node.process.wait()
        self.assertIn('node.sock.keeper', self.pages())
        node = self.start('daemon', '--memory', '256MiB')
        warm = int(node.wait_for_line(r'(\d+) blocks are warm from the node before, which was killed')[1])
        self.assertGreaterEqual(warm, max((prompt - 1) // BLOCK for _, prompt in answers))
        again = self.engine()
        self.assertEqual(self.answers(again), answers)
        self.assertEqual(self.restored(again), before)
        for running in (again, node):
            running.process.send_signal(signal.SIGTERM)
            self.assertEqual(running.finish()[0], 0)
        self.assertEqual(self.pages(), [], 'nor is there a keeper any more')

    # --- several tenants

    def stats(self, *words):
        done = self.call('stats', '--json', *words)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        return json.loads(done.stdout)

    def test_two_tenants_of_one_daemon(self):
        node = self.daemon('--tenant', 'one', '--tenant=two=64MiB', '--disk', '512MiB', '--metrics-port', '0')
        said = '\n'.join(node.said)
        self.assertIn('256MiB of memory, 512MiB of disk in ', said)
        self.assertIn(', 2 tenants\n', said)
        self.assertIn('tenant one: 192MiB of memory, 384MiB of disk in ', said)
        self.assertIn('tenant two: 64MiB of memory, 128MiB of disk in ', said)
        node.metrics = re.search(r'metrics at (http://127\.0\.0\.1:\d+)/metrics', said)[1]
        first = self.engine('--tenant', 'one')
        answers = self.answers(first)
        other = self.engine('--tenant', 'two')
        self.assertEqual(self.said(other, f'attached to the node of process {node.process.pid}: 64MiB of memory'), 1)
        self.assertEqual(self.answers(other), answers)
        self.assertEqual(self.restored(other), 0, 'what another tenant has is not found')
        # Each has its own all the same.
        self.expect_shared(first, self.engine('--tenant', 'one'))
        self.expect_shared(other, self.engine('--tenant', 'two'))
        one, two = self.stats('--tenant', 'one'), self.stats('--tenant', 'two')
        for stats, name, size, disk in ((one, 'one', 192, 384), (two, 'two', 64, 128)):
            self.assertEqual((stats['tenant'], stats['memory']['capacity_bytes'], stats['disk']['capacity_bytes']),
                             (name, size << 20, disk << 20))
            self.assertEqual(stats['keyspaces'], 1)
            self.assertGreater(stats['memory']['blocks'], 0)
        self.assertNotEqual(one['keyspace_list'][0]['name'], two['keyspace_list'][0]['name'])
        self.assertEqual(self.call('clear', '--tenant', 'two', '--yes').returncode, 0)
        self.assertEqual(self.stats('--tenant', 'one')['memory'], one['memory'])
        self.assertLess(self.stats('--tenant', 'two')['memory']['blocks'], 3)
        for words in ([], ['--tenant', 'three']):
            done = self.call('stats', *words)
            self.assertEqual((done.returncode, done.stdout), (1, ''))
            self.assertIn('this node serves no such tenant', done.stderr)
        # A stranger keeps a cache for itself.
        stranger = self.engine('--tenant', 'three')
        self.assertEqual(self.said(stranger, 'is not used: this node serves no such tenant'), 1)
        self.assertEqual(self.value(node, 'rhizome_memory_capacity_bytes{tier="slab"}'), 256 << 20)

    def test_tenants_that_come_back(self):
        tenants = ('--tenant', 'one,two', '--disk', '256MiB')
        node = self.daemon(*tenants)
        engines = [self.engine('--tenant', name, '--attach', str(self.socket)) for name in ('one', 'two')]
        answers = [self.answers(engine) for engine in engines]
        node.process.kill()
        node.process.wait()
        for engine in engines:
            engine.end()
        node = self.daemon(*tenants)
        for name in ('one', 'two'):
            again = self.engine('--tenant', name)
            self.assertEqual(self.answers(again), answers[0])
            whole = sum((prompt - 1) // BLOCK * BLOCK for _, prompt in answers[0])
            self.assertGreaterEqual(self.restored(again), 0.95 * whole)
            again.end()
        node.process.send_signal(signal.SIGTERM)
        self.assertEqual(node.finish()[0], 0)
        # What was written to each one's own directory is there for the next daemon.
        self.daemon(*tenants)
        for name in ('one', 'two'):
            self.assertGreater(self.stats('--tenant', name)['disk']['used_bytes'], 0)

    def test_tenants_that_cannot_be(self):
        cases = [(['--tenant', 'a', '--tenant', 'a'], 'names a twice'),
                 (['--tenant', 'a,b=300MiB'], 'more than --memory'), (['--tenant', 'a=1MiB'], 'at least 4MiB'),
                 (['--tenant', 'x' * 65], '1 to 64 printable'),
                 (['--tenant', ''], "--tenant is ''"), (['--tenant', 'a b'], '1 to 64 printable'),
                 (['--tenant', 'a,,b'], "--tenant is ''"),
                 (['--tenant', 'a,b', '--disk', '100MiB'], '--disk, which is divided')]
        for words, part in cases:
            with self.subTest(words=words):
                done = self.call('daemon', '--memory', '256MiB', *words)
                self.assertEqual((done.returncode, done.stdout), (2, ''), done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(part, done.stderr)
        for words in (['run', '--tenant', 'a=1GiB', '--', 'true'], ['stats']):
            with self.subTest(words=words):
                done = self.call(*words, env={'RHIZOME_TENANT': 'a,b'})
                self.assertEqual((done.returncode, done.stdout), (2, ''), done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    # --- servers among themselves

    def test_the_second_server_has_what_the_first_computed(self):
        first = self.engine()
        second = self.engine()
        self.assertEqual(self.said(first, 'attached to the node'), 0)
        self.assertEqual(self.said(second, f'attached to the node of process {first.process.pid}: '), 1)
        self.assertEqual((self.runtime / 'node.pid').read_text(), f'{first.process.pid}\n')
        self.expect_shared(first, second)
        alone = self.engine('--attach', 'none')
        self.answers(alone)
        self.assertEqual(self.restored(alone), 0)
        self.assertIn(f'node-{alone.process.pid}.sock', self.pages())
        for running in (alone, second, first):
            running.process.send_signal(signal.SIGTERM)
            self.assertEqual(running.finish()[0], 0)
        self.assertEqual(self.pages(), [])

    def test_when_the_first_server_ends_the_second_is_the_node(self):
        first = self.engine()
        second = self.engine()
        self.answers(second)
        first.process.send_signal(signal.SIGTERM)
        self.assertEqual(first.finish()[0], 0)
        second.wait_for_line(r"the host's node has ended: this process is it now")
        self.store_until(second, 'attached to the node again')
        self.assertEqual((self.runtime / 'node.pid').read_text(), f'{second.process.pid}\n')
        third = self.engine()
        self.assertEqual(self.said(third, f'attached to the node of process {second.process.pid}: '), 1)
        self.expect_shared(second, third)

    def test_a_killed_node_stops_nobody(self):
        node = self.engine()
        engines = [self.engine(), self.engine()]
        answers = self.answers(engines[0])
        node.process.kill()
        node.process.wait()
        for running in engines:
            self.assertEqual(self.answers(running), answers)
        for running in engines:
            self.store_until(running, 'attached to the node again')
            self.assertEqual(self.said(running, 'the node is gone'), 1)
            self.assertEqual(self.value(running, 'rhizome_nodes_lost_total'), 1)
            self.assertEqual(self.value(running, 'rhizome_nodes_found_again_total'), 1)
        pid = int((self.runtime / 'node.pid').read_text())
        self.assertIn(pid, [running.process.pid for running in engines])
        self.assertEqual(sum(self.said(running, 'this process is it now') for running in engines), 1)
        self.expect_shared(*engines)

    def test_a_named_node_is_waited_for(self):
        """Who was told which node to use does not become it."""
        node = self.daemon()
        engine = self.engine('--attach', str(self.socket))
        answers = self.answers(engine)
        node.process.kill()
        node.process.wait()
        self.store_until(engine, 'the node is gone')
        self.assertEqual(self.answers(engine), answers)
        self.daemon()
        self.store_until(engine, 'attached to the node again')
        self.assertEqual(self.said(engine, 'this process is it now'), 0)
        self.expect_shared(engine, self.engine())

    def test_a_killed_engine_leaves_its_blocks(self):
        node = self.daemon()
        first = self.engine()
        answers = self.answers(first)
        os.kill(first.child(), signal.SIGKILL)
        self.assertEqual(first.finish()[0], 128 + signal.SIGKILL)
        second = self.engine()
        self.assertEqual(self.answers(second), answers)
        self.assertGreater(self.restored(second), 0)
        self.assertIsNone(node.process.poll())

    def test_a_killed_server_leaves_its_memory_to_the_next(self):
        first = self.engine()
        self.assertIn('node.sock.keeper', self.pages())
        answers = self.answers(first)
        first.process.kill()
        first.process.wait()
        second = self.engine()
        self.assertEqual(self.said(second, r'\d+ blocks are warm from the node before, which was killed'), 1)
        self.assertEqual(self.answers(second), answers)
        whole = sum((prompt - 1) // BLOCK * BLOCK for _, prompt in answers)
        self.assertGreaterEqual(self.restored(second), 0.95 * whole)
        self.assertGreaterEqual(self.value(second, 'rhizome_blocks_adopted'), whole // BLOCK - 2)
        self.assertEqual(self.value(second, 'rhizome_keeper_present'), 1)
        # One whose place nobody comes to again has none.
        alone = self.engine('--attach', 'none')
        self.assertEqual([name for name in self.pages() if 'keeper' in name], ['node.sock.keeper'])
        self.assertEqual(self.value(alone, 'rhizome_keeper_present'), 0)
        for running in (alone, second):
            running.process.send_signal(signal.SIGTERM)
            self.assertEqual(running.finish()[0], 0)
        self.assertEqual(self.pages(), [], 'nor is there a keeper any more')
        # After an end in good order everything begins anew.
        self.assertEqual(self.said(self.engine(), 'blocks are warm'), 0)

    def test_a_killed_daemon_is_waited_for(self):
        """It has other flags than those who use it, and tenants that they do not know."""
        node = self.daemon('--tenant', 'one,two')
        engines = {name: self.engine('--tenant', name) for name in ('one', 'two')}
        answers = {name: self.answers(engine) for name, engine in engines.items()}
        node.process.kill()
        node.process.wait()
        for engine in engines.values():
            self.store_until(engine, 'the node is gone')
        # Longer than others wait before they take a node's place.
        time.sleep(4)
        for name, engine in engines.items():
            self.assertEqual(self.answers(engine), answers[name])
        self.assertNotIn('node.sock', [name for name in self.pages() if self.listens(name)])
        self.daemon('--tenant', 'one,two').wait_for_line(r'\d+ blocks are warm from the node before')
        for name, engine in engines.items():
            self.store_until(engine, 'attached to the node again')
            self.assertEqual(self.said(engine, 'this process is it now'), 0)
            self.expect_shared(engine, self.engine('--tenant', name))

    def listens(self, name):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
            try:
                other.connect(str(self.runtime / name))
            except OSError:
                return False
            return True

    def test_who_takes_over_from_a_killed_node_has_its_memory(self):
        node = self.engine()
        engine = self.engine()
        answers = self.answers(engine)
        node.process.kill()
        node.process.wait()
        engine.wait_for_line(r"the host's node has ended: this process is it now")
        engine.wait_for_line(r'\d+ blocks are warm from the node before, which was killed')
        other = self.engine()
        self.assertEqual(self.answers(other), answers)
        whole = sum((prompt - 1) // BLOCK * BLOCK for _, prompt in answers)
        self.assertGreaterEqual(self.restored(other), 0.95 * whole)

    def test_a_program_that_runs_has_a_keeper_while_it_does(self):
        done = self.call('run', '--memory', '64MiB', '--', 'ls', str(self.runtime))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('node.sock.keeper', done.stdout.split())
        self.assertEqual(self.pages(), [])
        for words in (['--off'], ['--attach', 'none']):
            done = self.call('run', '--memory', '64MiB', *words, '--', 'ls', str(self.folder), str(self.runtime))
            self.assertNotIn('keeper', done.stdout)

    # --- what is said of a node

    def test_what_answers_may_be_no_node(self):
        self.runtime.mkdir(mode=0o700)

        def frame(kind, request, body):
            return struct.pack('<IIQ', kind, len(body), request) + body

        def play(answers):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
                door.bind(f'{self.socket}.new')
                door.listen()
                os.rename(f'{self.socket}.new', self.socket)
                caller, _ = door.accept()
                with caller:
                    caller.recv(65536)
                    caller.send(frame(2, 1, struct.pack('<IIQQQII', 3, 16, 1, 1, 1 << 20, 0, 0)))
                    caller.recv(65536)
                    text = json.dumps(answers).encode()
                    caller.send(frame(22, 2, struct.pack('<I', len(text)) + text))
                    caller.recv(65536)
            self.socket.unlink()

        sound = {'memory': {}, 'disk': {}, 'tenant': 'a', 'keyspace_list': []}
        strange = [[], {}, {**sound, 'memory': 3}, {**sound, 'tenant': 3}, {**sound, 'keyspace_list': {}},
                   {**sound, 'keyspace_list': [3]}, {**sound, 'keyspace_list': [{'name': 3}]},
                   {**sound, 'keyspace_list': [{'number': -1}]}, {**sound, 'block_tokens': 'x'}]
        for answers in [sound, *strange]:
            player = threading.Thread(target=play, args=(answers,))
            player.start()
            while not self.socket.exists():
                time.sleep(0.01)
            done = self.call('stats')
            player.join()
            self.assertEqual(done.returncode, 0 if answers is sound else 1, answers)
            if answers is not sound:
                self.assertIn('answers something else', done.stderr, answers)

    def test_stats_top_and_clear(self):
        for command in ('stats', 'top', 'clear'):
            done = self.call(command, '--yes' if command == 'clear' else '--json')
            self.assertEqual((done.returncode, done.stdout), (1, ''), done.stderr)
            self.assertIn(f'rhizome: error: no node answers at {self.socket}', done.stderr)
        node = self.daemon('--disk', '64MiB')
        engine = self.engine()
        self.answers(engine)
        self.answers(engine)
        blocks = self.value(engine, 'rhizome_blocks_exported_total')

        done = self.call('stats', '--json')
        self.assertEqual((done.returncode, done.stderr, done.stdout.count('\n')), (0, '', 1))
        stats = json.loads(done.stdout)
        self.assertEqual((stats['process'], stats['tenant'], stats['block_tokens']), (node.process.pid, '', 16))
        self.assertEqual((stats['memory']['capacity_bytes'], stats['memory']['blocks']), (256 << 20, blocks))
        self.assertEqual((stats['engines']['contexts'], stats['engines']['prompts']), (1, 2 * len(PROMPTS)))
        self.assertGreater(stats['engines']['tokens_restored'], 0)
        self.assertGreater(stats['disk']['capacity_bytes'], 0)
        done = self.call('stats')
        self.assertIn(f'node of process {node.process.pid}, no tenant, blocks of 16 tokens\n', done.stdout)
        self.assertIn(f', {blocks:.0f} blocks', done.stdout)

        done = self.call('top', '--once')
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertRegex(done.stdout, r'\n  memory +\[#*-+\] \S+ of 256MiB, ')
        watching = self.start('top')
        self.assertRegex(watching.process.stdout.readline(), r'^memory \S+ of 256MiB, \d+ blocks; looked up ')
        watching.process.send_signal(signal.SIGINT)
        self.assertEqual(watching.finish()[0], 0)

        name = stats['keyspace_list'][0]['name']
        self.assertEqual(stats['keyspace_list'][0]['memory']['blocks'], blocks)
        self.assertRegex(self.call('stats').stdout, rf'\n +{name}  {blocks:.0f} blocks, .*llama\.cpp/seq-3, weights ')
        self.assertNotIn('private', self.call('stats').stdout)
        engine.complete(PROMPTS[0], cache_salt='mine')
        private = self.stats()['keyspace_list'][1]
        self.assertIn('private', private['words'])
        done = self.call('clear', '--yes', '--json', '--keyspace', private['name'][:6].upper())
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertGreaterEqual(json.loads(done.stdout)['freed_blocks'], private['memory']['blocks'] - 1)
        self.assertEqual(self.stats()['keyspace_list'][0]['memory']['blocks'], blocks, 'nothing of another one')
        self.assertLess(self.stats()['keyspace_list'][1]['memory']['blocks'], 2)
        done = self.call('clear', '--yes', '--keyspace', '0' * 12)
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertIn('has no such keyspace', done.stderr)

        done = self.call('clear', stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2)
        self.assertIn('give --yes', done.stderr)
        done = self.call('clear', '--yes', '--json')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(json.loads(done.stdout)['freed_blocks'], blocks - 2)
        self.assertLess(json.loads(self.call('stats', '--json').stdout)['memory']['blocks'], 3)
        done = self.call('stats', '--tenant', 'other')
        self.assertEqual(done.returncode, 1)
        self.assertIn(f'the node of process {node.process.pid}: ', done.stderr)

    def test_clear_asks_on_the_terminal(self):
        self.daemon()
        for answer, status in ((b'n', 1), (b'y', 0)):
            pid, terminal = pty.fork()
            if pid == 0:
                os.execve(program.PROGRAM, [str(program.PROGRAM), 'clear'], self.environment)
            with os.fdopen(terminal, 'r+b', buffering=0) as stream:
                seen = b''
                while b'[y/N]' not in seen:
                    seen += stream.read(1024)
                stream.write(answer + b'\n')
                try:
                    while stream.read(1024):
                        pass
                except OSError:  # a terminal that nobody holds any more
                    pass
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), status)

    def test_calls_that_are_wrong(self):
        for words in (['stats', '--yes'], ['stats', 'x'], ['top', '--attach'], ['clear', '--once'], ['doctor', '-v'],
                      ['stats', '--keyspace', 'abcd'], ['clear', '--keyspace', 'abc', '--yes'],
                      ['clear', '--keyspace', 'ghij', '--yes'], ['clear', '--keyspace=', '--yes']):
            with self.subTest(words=words):
                done = self.call(*words)
                self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, '', 1), done.stderr)

    def test_doctor(self):
        done = self.call('doctor', '--json')
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertEqual(json.loads(done.stdout)['memfd sealing']['offered'], 'yes')
        self.assertRegex(self.call('doctor').stdout, r'(?m)^io_uring +(yes|less|no) ')

    # --- who may not

    def test_another_tenant_sees_nothing(self):
        self.daemon('--tenant', 'one')
        first = self.engine('--tenant', 'one')
        answers = self.answers(first)
        other = self.engine('--tenant', 'two')
        self.assertEqual(self.said(other, "this host's node .* is not used: this node .*tenant"), 1)
        self.assertEqual(self.answers(other), answers)
        self.assertEqual(self.restored(other), 0)
        self.expect_shared(first, self.engine('--tenant', 'one'))

    def test_nodes_that_cannot_be_attached_to(self):
        self.daemon('--tenant', 'one')
        file = self.folder / 'file'
        file.touch()
        dead = self.folder / 'dead.sock'
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(dead))
        cases = [(self.folder / 'none.sock', 1, 'no node answers there'), (file, 1, 'no node answers there'),
                 (dead, 1, 'no node answers there'), ('', 2, '--attach'), ('x' * 200, 2, 'the path of a node'),
                 (self.socket, 1, "the node there does not take us: this node ")]
        for path, status, part in cases:
            with self.subTest(path=path):
                done = self.call('run', '--attach', path, '--', 'true')
                self.assertEqual((done.returncode, done.stdout), (status, ''), done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(part, done.stderr)
        done = self.call('run', '--attach', self.socket, '--tenant', 'one', '--block-tokens', '32', '--', 'true')
        self.assertEqual(done.returncode, 1)
        self.assertIn('another number of tokens', done.stderr)
        done = self.call('run', '--attach', self.socket, '--tenant', 'one', '--', 'env')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f'RHIZOME_ATTACH={self.socket}\n', done.stdout)
        self.assertIn(f'RHIZOME_MEMORY={256 << 20}\n', done.stdout)

    def test_a_runtime_directory_that_others_may_write_to(self):
        self.runtime.mkdir()
        self.runtime.chmod(0o777)
        for words in (['daemon'], ['run', '--', 'true'], ['serve', '-m', program.MODEL]):
            with self.subTest(words=words):
                done = self.call(*words)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f'the runtime directory {self.runtime} cannot be used', done.stderr)

    @unittest.skipIf(os.geteuid() != 0, 'needs to be another user')
    def test_a_node_of_another_user(self):
        """What it says would be believed; here it says nothing at all."""
        self.runtime.mkdir()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(self.socket))
            # Who listens is who called listen().
            os.seteuid(65534)
            try:
                listener.listen()
            finally:
                os.seteuid(0)
            for words in (['stats'], ['clear', '--yes'], ['run', '--attach', self.socket, '--', 'true']):
                with self.subTest(words=words):
                    done = self.call(*words)
                    self.assertEqual((done.returncode, done.stdout), (1, ''), done.stderr)
                    self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                    self.assertIn("it is another user's\n", done.stderr)


if __name__ == '__main__':
    unittest.main()
