"""Starts the built program the way a person does, and waits for what it says instead of for time to pass."""
import json
import os
import pathlib
import queue
import re
import select
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

BUILD = pathlib.Path(os.environ.get('RHIZOME_BUILD_DIR', 'build/release')).resolve()
PROGRAM = BUILD / 'bin' / 'rhizome'
LIBRARY = BUILD / 'lib' / 'librhizome_llama.so'
STOCK_SERVER = BUILD / 'libexec' / 'stock' / 'llama-server'
MODEL = pathlib.Path(os.environ.get('RHIZOME_MODELS_DIR', '')) / 'smollm2-2-layers.gguf'
# For a machine that is busy with other things; nothing here takes as long as that when it works.
PATIENCE = 120
# For a server whose weights are waited for.
LOGS_WEIGHTS = {'RHIZOME_LOG': 'debug'}


def environment(**changes):
    """This process's environment without what would change how Rhizome and llama.cpp behave."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(('RHIZOME_', 'LLAMA_', 'LD_PRELOAD'))}
    kept.update(changes)
    return kept


class Case(unittest.TestCase):
    """A test with a folder of its own, which is also the runtime directory of what it starts."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='rhizome-test-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = environment(XDG_RUNTIME_DIR=str(self.folder), XDG_CACHE_HOME=str(self.folder / 'cache'))

    def call(self, *words, **options):
        """Runs the program to its end."""
        return subprocess.run([PROGRAM, *map(str, words)], text=True, timeout=PATIENCE, check=False,
                              env={**self.environment, **options.pop('env', {})},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def start(self, *words, **changes):
        running = Running([PROGRAM, *map(str, words)], {**self.environment, **changes})
        self.addCleanup(running.end)
        return running

    def serve(self, *words, **changes):
        """A server on a free port that answers."""
        running = self.start('serve', '-m', MODEL, '-t', '1', '-c', '512', '--port', '0', *words, **changes)
        running.wait_until_listening()
        # Answered by the server's loop: until that runs, llama-server loses the signal that ends it.
        running.get('/slots')
        return running

    def serve_measured(self, *words):
        """A server that answers, with /metrics, and whose weights are hashed: from now on it stores."""
        running = self.start('serve', '-m', MODEL, '-t', '1', '--port', '0', '--metrics-port', '0', *words,
                             **LOGS_WEIGHTS)
        running.metrics = running.wait_for_line(r'metrics at (http://127\.0\.0\.1:\d+)/metrics')[1]
        running.wait_until_listening()
        running.get('/slots')
        running.wait_for_weights()
        return running

    def value(self, running, name):
        """Of a metric of a server from serve_measured()."""
        return float(re.search(rf'(?m)^{re.escape(name)} (\S+)$', running.get('/metrics', running.metrics))[1])

    def pages(self):
        directory = self.folder / 'rhizome'
        return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


class Running:
    def __init__(self, words, env, pass_fds=()):
        self.process = subprocess.Popen(words, env=env, text=True, stdin=subprocess.DEVNULL,
                                        pass_fds=pass_fds, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines = queue.Queue()
        self.said = []
        self.url = None
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.put(line.rstrip('\n'))
        self.lines.put(None)

    def wait_for_line(self, pattern):
        """The first line on standard error that matches; fails when the program ends before."""
        while True:
            line = self.lines.get(timeout=PATIENCE)
            if line is None:
                raise AssertionError(f'ended without saying {pattern!r}:\n' + '\n'.join(self.said))
            self.said.append(line)
            if found := re.search(pattern, line):
                return found

    def wait_until_listening(self):
        self.url = self.wait_for_line(r'listening on (http://127\.0\.0\.1:\d+)')[1]

    def get(self, path, url=None):
        with urllib.request.urlopen((url or self.url) + path, timeout=PATIENCE) as answer:
            return answer.read().decode()

    def complete(self, prompt='Once upon a time', **wishes):
        """The server's answer to a prompt, as JSON."""
        body = json.dumps({'prompt': prompt, 'max_tokens': 4, 'temperature': 0, **wishes}).encode()
        request = urllib.request.Request(self.url + '/v1/completions', body, {'Content-Type': 'application/json'})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def wait_for_weights(self):
        """Until the server knows its weights: nothing is cached before. It must have been started to log that."""
        known = r'weights known after'
        if not any(re.search(known, line) for line in self.said):
            self.wait_for_line(known)

    def child(self):
        """The process that it started, beside the keeper of its memory."""
        path = pathlib.Path(f'/proc/{self.process.pid}/task/{self.process.pid}/children')
        pids = [int(pid) for pid in path.read_text().split()]
        words = {pid: pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0') for pid in pids}
        return next(pid for pid in pids if words[pid][1:2] != [b'keeper'])

    def finish(self):
        """Waits for the end: the exit status, standard error, standard output."""
        self.process.wait(timeout=PATIENCE)
        self.reader.join(timeout=PATIENCE)
        while (line := self.lines.get(timeout=PATIENCE)) is not None:
            self.said.append(line)
        return self.process.returncode, '\n'.join(self.said), self.process.stdout.read()

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        self.reader.join(timeout=PATIENCE)
        self.process.stderr.close()


class Watched:
    """Another process's end, also when it is nobody's child here."""

    def __init__(self, pid):
        self.descriptor = os.pidfd_open(pid)

    def wait(self):
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        ended = bool(poll.poll(PATIENCE * 1000))
        os.close(self.descriptor)
        return ended
