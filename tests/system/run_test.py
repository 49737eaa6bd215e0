"""`rhizome run`: the program's streams, signals and status are its own, and the library is in it."""
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import unittest

import program


def static_program(path):
    """A program of 132 bytes that ends with status 3 and needs no library."""
    code = bytes([0xBF, 3, 0, 0, 0, 0xB8, 60, 0, 0, 0, 0x0F, 0x05])  # mov edi, 3; mov eax, 60; syscall
    base = 0x400000
    head = struct.pack('<16sHHIQQQIHHHHHH', b'\x7fELF\x02\x01\x01', 2, 62, 1, base + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack('<IIQQQQQQ', 1, 5, 0, base, base, 120 + len(code), 120 + len(code), 4096)
    path.write_bytes(head + segment + code)
    path.chmod(0o755)


# Says "ready", then one line a SIGINT; ends at SIGTERM with the number of SIGINTs.
COUNTS_INTERRUPTS = '''
import os, signal
count = 0
def interrupted(*_):
    global count
    count += 1
    os.write(1, b"interrupted\\n")
def ended(*_):
    os.write(1, b"count %d\\n" % count)
    os._exit(9)
signal.signal(signal.SIGINT, interrupted)
signal.signal(signal.SIGTERM, ended)
os.write(1, b"ready\\n")
while True:
    signal.pause()
'''


class Run(program.Case):
    def test_status(self):
        self.assertEqual(self.call('run', '--', 'sh', '-c', 'exit 7').returncode, 7)
        self.assertEqual(self.call('run', 'sh', '-c', 'exit 0').returncode, 0)
        self.assertEqual(self.call('run', '--', 'sh', '-c', 'kill -KILL $$').returncode, 128 + signal.SIGKILL)

    def test_streams(self):
        text = ''.join(chr(33 + i % 90) for i in range(300_000))
        done = self.call('run', '--', 'sh', '-c', 'cat; echo side >&2', input=text)
        self.assertEqual(done.stdout, text)
        self.assertIn('side\n', done.stderr)

    def test_a_program_that_cannot_be_started(self):
        done = self.call('run', '--', 'no-such-program')
        self.assertEqual((done.returncode, done.stdout), (127, ''))
        self.assertEqual(done.stderr, 'rhizome: error: no-such-program: there is no such program\n')
        plain = self.folder / 'plain'
        plain.write_text('no program')
        done = self.call('run', '--', plain)
        self.assertEqual(done.returncode, 126)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_environment(self):
        done = self.call('run', '--memory', '1GiB', '--exact', '--', 'env', env={'RHIZOME_TENANT': 'me',
                                                                               'RHIZOME_NO_RESTORE': '0'})
        seen = dict(line.split('=', 1) for line in done.stdout.splitlines() if '=' in line)
        self.assertEqual(seen['RHIZOME_MEMORY'], str(1 << 30))
        self.assertEqual(seen['RHIZOME_EXACT'], '1')
        self.assertEqual(seen['RHIZOME_TENANT'], 'me')
        self.assertNotIn('RHIZOME_NO_RESTORE', seen)
        self.assertEqual(seen['RHIZOME_ATTACH'], str(self.folder / 'rhizome' / 'node.sock'))
        self.assertTrue(seen['RHIZOME_COUNTERS'].startswith(str(self.folder / 'rhizome' / 'counters-')))
        self.assertEqual(os.path.realpath(seen['LD_PRELOAD']), os.path.realpath(program.LIBRARY))
        self.assertEqual(self.pages(), [], 'the page of counters was left behind')

    def test_a_preload_that_is_there_is_kept(self):
        other = '/lib/x86_64-linux-gnu/libdl.so.2'
        done = self.call('run', '--', 'sh', '-c', 'echo $LD_PRELOAD', env={'LD_PRELOAD': other})
        first, second = done.stdout.strip().split(':')
        self.assertEqual(os.path.realpath(first), os.path.realpath(program.LIBRARY))
        self.assertEqual(second, other)

    def test_no_socket_of_ours_is_the_programs(self):
        done = self.call('run', '--metrics-port', '0', '--', 'ls', '-l', '/proc/self/fd')
        self.assertIn(' 2 -> ', done.stdout)
        self.assertNotIn('socket:', done.stdout)

    def test_off_attaches_nothing(self):
        done = self.call('run', '--off', '--', 'env')
        self.assertNotIn('LD_PRELOAD', done.stdout)
        self.assertNotIn('RHIZOME_COUNTERS', done.stdout)
        self.assertEqual(done.stderr, '')

    def test_says_which_programs_it_cannot_attach_to(self):
        static = self.folder / 'static'
        static_program(static)
        done = self.call('run', '--', static)
        self.assertEqual(done.returncode, 3)
        self.assertIn(f'rhizome: warning: {static} is statically linked', done.stderr)
        done = self.call('run', '--', 'cat')
        self.assertIn('rhizome: warning: cat does not use a llama.cpp library itself', done.stderr)
        script = self.folder / 'script'
        script.write_text('#!/bin/sh\nexit 0\n')
        script.chmod(0o755)
        self.assertNotIn('warning', self.call('run', '--', script).stderr)
        done = self.call('run', '--', program.STOCK_SERVER, '--version')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn('warning', done.stderr)

    def test_a_stock_server_finds_the_cache(self):
        running = self.start('run', '--json', '--', program.STOCK_SERVER, '-m', program.MODEL, '-t', '1', '-c', '1024',
                             '-np', '2', '-kvu', '--cache-ram', '0', '--port', '0')
        running.wait_until_listening()
        prompt = 'A rhizome is a root that spreads sideways and feeds many stems. ' * 20
        first = running.complete(prompt, id_slot=0)
        second = running.complete(prompt, id_slot=1)
        self.assertEqual(second['usage']['completion_tokens'], 4)
        running.process.send_signal(signal.SIGTERM)
        status, said, output = running.finish()
        self.assertEqual(status, 0, said)
        summary = json.loads(output)
        self.assertGreater(sum(summary['tokens_restored'].values()), first['usage']['prompt_tokens'] // 2)

    def test_signals_go_on_to_the_program(self):
        running = self.start('run', '--', sys.executable, '-c', COUNTS_INTERRUPTS)
        self.assertEqual(running.process.stdout.readline(), 'ready\n')
        running.process.send_signal(signal.SIGINT)
        self.assertEqual(running.process.stdout.readline(), 'interrupted\n')
        running.process.send_signal(signal.SIGTERM)
        status, _, output = running.finish()
        self.assertEqual((status, output), (9, 'count 1\n'))

    def test_the_terminals_interrupt_arrives_once(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(program.PROGRAM, [str(program.PROGRAM), 'run', '--', sys.executable, '-c', COUNTS_INTERRUPTS],
                      self.environment)
        with os.fdopen(terminal, 'r+b', buffering=0) as stream:
            def wait_for(word):
                seen = b''
                while word not in seen:
                    seen += stream.read(1024)
                return seen
            wait_for(b'ready')
            stream.write(b'\x03')
            wait_for(b'interrupted')
            os.kill(pid, signal.SIGTERM)
            rest = b''
            try:
                while more := stream.read(1024):
                    rest += more
            except OSError:  # a terminal that nobody holds any more
                pass
            self.assertIn(b'count 1\r\n', rest)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 9)

    def test_the_program_dies_with_us(self):
        running = self.start('run', '--', 'sh', '-c', 'echo ready; exec tail -f /dev/null')
        self.assertEqual(running.process.stdout.readline(), 'ready\n')
        child = program.Watched(running.child())
        running.process.kill()
        self.assertTrue(child.wait(), 'the program outlived us')

    def test_the_page_of_a_killed_one_is_removed_by_the_next(self):
        running = self.start('run', '--', 'sh', '-c', 'echo ready; exec tail -f /dev/null')
        self.assertEqual(running.process.stdout.readline(), 'ready\n')
        running.process.kill()
        running.process.wait()
        self.assertEqual(self.pages(), [f'counters-{running.process.pid}', 'node.pid', 'node.sock',
                                        'node.sock.keeper'])
        self.call('run', '--', 'true')
        self.assertEqual(self.pages(), [])

    def test_json_is_one_object_behind_the_programs_output(self):
        done = self.call('run', '--json', '--', 'echo', 'hello')
        first, second = done.stdout.splitlines()
        self.assertEqual(first, 'hello')
        self.assertTrue(second.startswith('{"lookups":0,'), second)


if __name__ == '__main__':
    unittest.main()
