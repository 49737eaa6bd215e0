"""tools/setup says in one line what is wrong and leaves nothing half made. Commands that it calls are stood in for."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / 'setup'
NEEDED = ('bash env cut cat sha256sum basename dirname mkdir rm mv rmdir tail head awk id nproc flock grep sed uname cp ln '
          'tar git mktemp').split()


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        self.bin, self.cache = root / 'bin', root / 'cache'
        self.bin.mkdir()
        for name in NEEDED:
            found = shutil.which(name)
            if found:
                (self.bin / name).symlink_to(found)
        self.command('df', 'printf "size\\nx x x 100000 x\\n"')

    def command(self, name, script):
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f'#!{shutil.which("bash")}\n{script}\n')
        path.chmod(0o755)

    def debian(self, installed):
        self.command('apt-get', 'echo "apt-get $*" >> "$CALLS"; exit 0')
        self.command('dpkg-query', 'echo -n installed' if installed else 'exit 1')

    def said(self, *words, **environment):
        done = subprocess.run([SCRIPT, *words], text=True, capture_output=True, check=False, cwd='/',
                              env={'PATH': str(self.bin), 'RHIZOME_SETUP_CACHE': str(self.cache), 'HOME': '/nowhere',
                                   'CALLS': str(self.bin / 'calls'), **environment})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        left = {path.name for path in self.cache.iterdir()} if self.cache.is_dir() else set()
        self.assertLessEqual(left, {'lock', 'dl', 'models'}, 'half made')
        return done.stderr.strip()

    def test_not_debian(self):
        said = self.said()
        self.assertIn('this is not Debian', said)
        self.assertEqual(len(said.splitlines()), 1)

    def test_not_root_and_no_sudo(self):
        self.debian(installed=False)
        self.command('id', 'echo 1000')
        said = self.said()
        self.assertIn('not root, and there is no sudo; as root: apt-get install g++', said)
        self.assertEqual(len(said.splitlines()), 1)
        self.assertFalse((self.bin / 'calls').exists())

    def test_no_network(self):
        self.debian(installed=True)
        self.command('npm', 'echo "npm error code ENOTFOUND" >&2; exit 1')
        said = self.said().splitlines()
        self.assertEqual(said[-1], 'setup: could not fetch node-llama-cpp-3.22.1.tgz: is there a network?')

    def test_no_network_for_packages(self):
        self.debian(installed=False)
        self.command('apt-get', 'exit 100')
        self.command('id', 'echo 0')
        self.assertEqual(self.said(), 'setup: apt-get update failed: is there a network?')

    def test_wrong_hash(self):
        self.debian(installed=True)
        self.command('npm', 'echo tampered > node-llama-cpp-3.22.1.tgz')
        self.assertIn('node-llama-cpp-3.22.1.tgz has the wrong sha256', self.said())

    def test_too_little_disk(self):
        self.debian(installed=True)
        self.command('df', 'printf "size\\nx x x 12 x\\n"')
        self.assertIn('has 12 MiB of free disk', self.said())

    def test_a_folder_that_cannot_be_written(self):
        self.debian(installed=True)
        self.assertIn('set RHIZOME_SETUP_CACHE', self.said(RHIZOME_SETUP_CACHE='/proc/nowhere'))

    def test_words_that_it_does_not_know(self):
        self.assertIn("what is '--tset'?", self.said('--tset'))
        self.debian(installed=True)
        self.assertIn("LLAMA_FROM is 'here'", self.said(LLAMA_FROM='here'))
        self.assertIn('there is no llama.cpp tree in /nowhere', self.said(RHIZOME_LLAMA_SOURCE='/nowhere'))


if __name__ == '__main__':
    unittest.main()
