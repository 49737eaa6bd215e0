"""The daemon as a service of systemd: it says when it has started, and systemd holds its memory when it is killed.
systemd is played as sd_notify(3), sd_listen_fds(3) and its page on the descriptor store say."""
import ctypes
import os
import signal
import socket
import sys
import threading
import unittest

import program

KCMP = 312  # of x86-64
STORE_MAX = 64

# Becomes the program, with descriptors from 3 on.
LAUNCHER = '''
import fcntl, os, sys
given = [int(number) for number in sys.argv[1].split(',') if number]
high = [fcntl.fcntl(number, fcntl.F_DUPFD, 500) for number in given]
for place, number in enumerate(high):
    os.dup2(number, 3 + place)
os.closerange(3 + len(given), 1024)
os.environ['LISTEN_PID'] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
'''


def is_same_opening(one, other):
    return ctypes.CDLL(None).syscall(KCMP, os.getpid(), os.getpid(), 0, one, other) == 0


class Systemd:
    def __init__(self, path):
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.lock = threading.Lock()
        self.held = {}  # name to descriptors
        self.states = []
        self.refused = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            try:
                message, descriptors, _, _ = socket.recv_fds(self.socket, 4096, 8)
            except OSError:
                return
            words = dict(line.split('=', 1) for line in message.decode().splitlines())
            with self.lock:
                self._heed(words, descriptors)

    def _heed(self, words, descriptors):
        name = words.get('FDNAME', 'stored')
        if words.get('FDSTORE') == '1':
            for number in descriptors:
                known = [held for all_held in self.held.values() for held in all_held]
                if len(known) == STORE_MAX or any(is_same_opening(number, held) for held in known):
                    self.refused += 1
                    os.close(number)
                else:
                    self.held.setdefault(name, []).append(number)
        elif words.get('FDSTOREREMOVE') == '1':
            for number in self.held.pop(name, []):
                os.close(number)
        else:
            self.states.append(words)

    def snapshot(self):
        with self.lock:
            return {name: list(held) for name, held in self.held.items()}, list(self.states), self.refused

    def end(self):
        self.socket.close()


class Service(program.Case):
    def setUp(self):
        super().setUp()
        self.systemd = Systemd(self.folder / 'notify')
        self.addCleanup(self.systemd.end)

    def start_service(self, *words, store_max=STORE_MAX):
        held = [(name, number) for name, numbers in self.systemd.snapshot()[0].items() for number in numbers]
        environment = {**self.environment, 'NOTIFY_SOCKET': str(self.systemd.path), 'FDSTORE': str(store_max),
                       'LISTEN_FDS': str(len(held)), 'LISTEN_FDNAMES': ':'.join(name for name, _ in held)}
        numbers = [number for _, number in held]
        running = program.Running([sys.executable, '-c', LAUNCHER, ','.join(map(str, numbers)), program.PROGRAM,
                                   'daemon', '--memory', '256MiB', *words], environment, tuple(numbers))
        self.addCleanup(running.end)
        running.wait_for_line(r'listening on \S+/node\.sock')
        return running

    def test_systemd_holds_the_memory_of_a_killed_daemon(self):
        node = self.start_service()
        engine = self.serve_measured('-c', '1024', '--exact')
        prompt = 'A rhizome is a root that spreads sideways and feeds many stems, and this is said again. ' * 14
        answer = engine.complete(prompt, max_tokens=8)['choices'][0]['text']
        engine.process.send_signal(signal.SIGTERM)
        self.assertEqual(engine.finish()[0], 0)
        for life in range(3):
            held, states, refused = self.systemd.snapshot()
            self.assertIn({'READY': '1'}, states)
            self.assertGreaterEqual(len(held), 3, 'a chunk, the directory, the book')
            self.assertEqual(refused, 0, 'all that was handed over is held')
            self.assertNotIn('node.sock.keeper', self.pages(), 'systemd is the keeper')
            node.process.kill()
            node.process.wait()
            node = self.start_service()
            node.wait_for_line(r'\d+ blocks are warm from the node before, which was killed')
            after, _, _ = self.systemd.snapshot()
            self.assertTrue(set(after).isdisjoint(held), 'what the former node had handed over is given back')
        again = self.serve_measured('-c', '1024', '--exact')
        self.assertEqual(again.complete(prompt, max_tokens=8)['choices'][0]['text'], answer)
        self.assertGreater(self.value(again, 'rhizome_tokens_restored_total{source="slab"}'), 0)
        for running in (again, node):
            running.process.send_signal(signal.SIGTERM)
            self.assertEqual(running.finish()[0], 0)
        held, states, _ = self.systemd.snapshot()
        self.assertEqual(held, {}, 'who ends in good order leaves nothing')
        self.assertEqual(states[-1], {'STOPPING': '1'})

    def test_a_store_that_is_too_small_is_said(self):
        node = self.start_service(store_max=1)
        engine = self.serve_measured('-c', '1024')
        engine.complete('A tuber stores what the plant will need, and that is said again. ' * 14, max_tokens=4)
        node.wait_for_line(r'supervisor holds 1 descriptors and no more')

    def test_strange_descriptors_are_not_ours(self):
        with open('/dev/null', 'rb') as null:
            self.systemd.held['web'] = [os.dup(null.fileno())]
            self.systemd.held['rhizome-00ff'] = [os.dup(null.fileno())]
            self.systemd.held['rhizome-' + 144 * '0'] = [os.dup(null.fileno())]
            node = self.start_service()
            node.process.send_signal(signal.SIGTERM)
            self.assertEqual(node.finish()[0], 0)
            self.assertEqual(set(self.systemd.snapshot()[0]), {'web'})


if __name__ == '__main__':
    unittest.main()
