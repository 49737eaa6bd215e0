"""Calls that are wrong, and those that only say something: one clear line, the right status, nothing started."""
import os
import pathlib
import shutil
import subprocess
import unittest

import program

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Calls(program.Case):
    def assert_refused(self, words, part, status=2, **options):
        done = self.call(*words, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, '')
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith('rhizome: error: '), lines[0])
        self.assertIn(part, lines[0])

    def test_memory_sizes(self):
        cases = {
            '0': 'at least one block', '0GiB': 'at least one block', '64': 'a size needs a unit',
            '1000TiB': 'this machine has', 'much': 'it must be a size', '-1GiB': 'it must be a size',
            '1KiB': 'one block of 16 tokens of this model takes',
        }
        for size, part in cases.items():
            with self.subTest(size=size):
                self.assert_refused(['serve', '-m', program.MODEL, '--memory', size], part)
                self.assert_refused(['serve', '-m', program.MODEL, f'--memory={size}'], f"'{size}'" if size != '1KiB'
                                    else '1KiB')

    def test_a_wrong_value_names_where_it_came_from(self):
        self.assert_refused(['serve', '-m', program.MODEL], "RHIZOME_BLOCK_TOKENS is '17'",
                            env={'RHIZOME_BLOCK_TOKENS': '17'})
        config = self.folder / 'rhizome.toml'
        config.write_text('verify = "never"\n')
        self.assert_refused(['run', '--config', config, '--', 'true'], f"verify in {config} is 'never'")
        self.assert_refused(['run', '--config', self.folder / 'none.toml', '--', 'true'], 'none.toml')

    def test_models(self):
        text = self.folder / 'text.gguf'
        text.write_text('once upon a time')
        empty = self.folder / 'empty.gguf'
        empty.touch()
        cut = self.folder / 'cut.gguf'
        shutil.copy(program.MODEL, cut)
        os.truncate(cut, cut.stat().st_size - 1)
        head = self.folder / 'head.gguf'
        shutil.copy(program.MODEL, head)
        os.truncate(head, 1000)
        cases = {self.folder / 'none.gguf': 'does not exist', self.folder: 'is not a regular file',
                 text: 'is not a GGUF file', empty: 'is empty', cut: 'is truncated', head: 'is truncated'}
        for path, part in cases.items():
            with self.subTest(path=path):
                self.assert_refused(['serve', '-m', path], f"the model file '{path}' {part}")
        self.assert_refused(['serve', '-c', '512'], 'serve needs a model')

    def test_flags_of_other_versions(self):
        for flag in ('--redis', '--s3'):
            self.assert_refused(['serve', '-m', program.MODEL, flag, 'x'], f'{flag}: this version has no')
        self.assert_refused(['serve', '-m', program.MODEL, '--disk', 'x'], "--disk is 'x'; it must be a size")
        self.assert_refused(['serve', '-m', program.MODEL, '--disk', '20'], 'a size needs a unit')
        self.assert_refused(['serve', '-m', program.MODEL, '--disk', '1MiB'], 'at least 64MiB')
        self.assert_refused(['serve', '-m', program.MODEL, '--attach', '/run/no/node.sock'], 'no node answers there',
                            status=1)
        self.assert_refused(['run', '-c', '512', '--', 'true'], 'there is no flag -c')
        self.assert_refused(['run', '--memory', '1GiB'], 'run needs a program')

    def test_commands(self):
        self.assert_refused(['conductor'], "there is no command 'conductor'")
        self.assert_refused(['reference', '--html'], 'reference takes')
        done = self.call()
        self.assertEqual(done.returncode, 2)
        self.assertIn('Usage: rhizome COMMAND', done.stderr)

    def test_what_it_says_about_itself(self):
        for words in (['--help'], ['help'], ['serve', '--help'], ['run', '-h'], ['bench', '--help'],
                      ['replay', '--help'], ['inspect', '--help'], ['daemon', '--help'],
                      ['stats', '--help'], ['clear', '-h'], ['top', '--help'], ['doctor', '--help']):
            with self.subTest(words=words):
                done = self.call(*words)
                self.assertEqual(done.returncode, 0, done.stderr)
                named = 'serve|run|bench|replay|inspect|daemon|stats|clear|top|doctor'
                self.assertRegex(done.stdout, rf'(\n  |Example: )rhizome ({named}) ')
                self.assertEqual(done.stderr, '')
        done = self.call('--version')
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r'\Arhizome \d+\.\d+\.\d+\nengine  llama\.cpp v0\.5\.0\nformats .+\n\Z')

    def test_output_that_is_lost_is_no_success(self):
        for words in (['--help'], ['serve', '--help'], ['replay', '--help'], ['bench', 'index', 'single', '--quick'],
                      ['replay', 'synthetic', '--capacity', '10', '--json']):
            with self.subTest(words=words), open('/dev/full', 'w') as full:
                done = subprocess.run([program.PROGRAM, *words], env=self.environment, text=True, check=False,
                                      timeout=program.PATIENCE, stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 1)
                self.assertIn('the output could not be written', done.stderr)

    def test_the_reference_page_is_up_to_date(self):
        done = self.call('reference')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((ROOT / 'docs' / 'reference.md').read_text(), done.stdout,
                         'write it anew: rhizome reference > docs/reference.md')

    def test_the_sample_of_a_config_file_is_right(self):
        sample = (ROOT / 'src' / 'cli' / 'rhizome.toml').read_text()
        config = self.folder / 'rhizome.toml'
        config.write_text(''.join(line[1:] if line.startswith('#') and ' = ' in line else line
                                  for line in sample.splitlines(keepends=True)))
        self.assertRegex(config.read_text(), r'(?m)^memory = ')
        self.assertEqual(self.call('run', '--config', config, '--', 'true').returncode, 0)

    def test_a_runtime_directory_that_others_may_write_to_is_refused(self):
        (self.folder / 'rhizome').mkdir()
        (self.folder / 'rhizome').chmod(0o777)
        self.assert_refused(['run', '--', 'true'], f"the runtime directory {self.folder / 'rhizome'}", status=1)


if __name__ == '__main__':
    unittest.main()
