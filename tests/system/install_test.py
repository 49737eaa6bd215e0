"""What `make install` gives to others: both ways in which their programs find the library, in a tree that was moved."""
import pathlib
import re
import shutil
import subprocess
import unittest

import program

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / 'include/rhizome/rhizome.h'
LIBRARY = program.BUILD / 'lib/librhizome.so'
STRICT = ['-std=c99', '-Wall', '-Wextra', '-pedantic', '-Werror']
EXPECTED = re.compile(r'prompt of 330 tokens: 0 restored, .*\nprompt of 420 tokens: 320 restored, .*\n')


class Install(program.Case):
    def setUp(self):
        super().setUp()
        self.prefix = self.folder / 'moved'
        installed = self.folder / 'installed'
        self.must('cmake', '--install', program.BUILD, '--prefix', installed, '--component', 'library')
        installed.rename(self.prefix)

    def must(self, *words, **changes):
        """Runs a command that has to work; what it wrote."""
        done = subprocess.run(list(map(str, words)), cwd=self.folder, env={**self.environment, **changes}, text=True,
                              check=False, timeout=program.PATIENCE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, f'{words}\n{done.stdout}')
        return done.stdout

    def test_what_is_installed(self):
        there = sorted(str(path.relative_to(self.prefix)) for path in self.prefix.rglob('*') if not path.is_dir())
        self.assertEqual(there, [
            'include/rhizome/rhizome.h', 'lib/cmake/rhizome/rhizome-config-release.cmake',
            'lib/cmake/rhizome/rhizome-config-version.cmake', 'lib/cmake/rhizome/rhizome-config.cmake',
            'lib/librhizome.so', 'lib/librhizome.so.1', 'lib/librhizome.so.1.0.1.0', 'lib/pkgconfig/rhizome.pc'])
        for path in self.prefix.rglob('*'):
            if path.suffix in ('.cmake', '.pc'):
                for place in (ROOT, program.BUILD, self.folder):
                    self.assertNotIn(str(place), path.read_text(), path)

    def test_find_package(self):
        source = self.folder / 'consumer'
        source.mkdir()
        shutil.copy(ROOT / 'examples/engine.c', source)
        (source / 'CMakeLists.txt').write_text(
            'cmake_minimum_required(VERSION 3.25)\nproject(consumer LANGUAGES C)\n'
            'find_package(rhizome 0.1 REQUIRED)\nadd_executable(engine engine.c)\n'
            'target_link_libraries(engine PRIVATE rhizome::rhizome)\n')
        self.must('cmake', '-G', 'Ninja', '-S', source, '-B', self.folder / 'build',
                  f'-DCMAKE_PREFIX_PATH={self.prefix}', f'-DCMAKE_C_FLAGS={" ".join(STRICT)}')
        self.must('cmake', '--build', self.folder / 'build')
        self.assertRegex(self.must(self.folder / 'build/engine'), EXPECTED)

    def test_pkg_config(self):
        path = {'PKG_CONFIG_PATH': str(self.prefix / 'lib/pkgconfig')}
        self.assertEqual(self.must('pkg-config', '--modversion', 'rhizome', **path).strip(), '0.1.0')
        flags = self.must('pkg-config', '--cflags', '--libs', 'rhizome', **path).split()
        self.must('cc', *STRICT, '-o', 'engine', ROOT / 'examples/engine.c', *flags)
        libraries = {'LD_LIBRARY_PATH': str(self.prefix / 'lib')}
        self.assertRegex(self.must(self.folder / 'engine', **libraries), EXPECTED)
        # The same program in the other language.
        self.must('c++', '-x', 'c++', '-std=c++11', '-Wall', '-Wextra', '-pedantic', '-Werror', '-fsyntax-only',
                  '-include', 'rhizome/rhizome.h', '/dev/null', *flags)


class Library(program.Case):
    def test_only_the_interface_is_seen(self):
        declared = set(re.findall(r'^RHIZOME_API [^;(]*?\b(rhizome_\w+)\(', HEADER.read_text(), re.M))
        self.assertGreater(len(declared), 25)
        listed = subprocess.run(['nm', '-D', '--defined-only', LIBRARY], check=True, text=True, capture_output=True)
        names = {line.split()[-1].split('@')[0] for line in listed.stdout.splitlines()}
        self.assertEqual(names, declared | {'RHIZOME_1'})

    def test_the_number_in_its_name(self):
        said = subprocess.run(['readelf', '-d', LIBRARY], check=True, text=True, capture_output=True).stdout
        self.assertIn('Library soname: [librhizome.so.1]', said)
        self.assertNotRegex(said, r'RPATH|RUNPATH')

    def test_it_needs_little(self):
        said = subprocess.run(['readelf', '-d', LIBRARY], check=True, text=True, capture_output=True).stdout
        for name in re.findall(r'Shared library: \[(\S+?)\.so', said):
            self.assertIn(name, ('libzstd', 'libcrypto', 'libstdc++', 'libm', 'libgcc_s', 'libc', 'ld-linux-x86-64'))

    def test_the_example_is_short(self):
        self.assertLessEqual(len((ROOT / 'examples/engine.c').read_text().splitlines()), 150)


if __name__ == '__main__':
    unittest.main()
