#!/usr/bin/env python3
"""Everything that has to hold, leg by leg. Usage: tools/run_tests.py [LEG...] [--all]

  scripts   the tests of the scripts in tools/
  tidy      tools/tidy.py: sizes, banned names and calls, a README in each layer
  format    clang-format changes nothing
  release   g++, with every test, the link check of each layer, and each public header compiled alone
  asan      clang with the thread-safety analysis, address and undefined-behaviour sanitizers; no whole-system tests
  tsan      the thread sanitizer, tests labelled concurrency
  lint      clang-tidy on the files that changed since they last passed here; with --all on every file

Each leg prints what it does; at the end stand the names of what failed, and the last line says how many tests passed
and failed over all of them.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
JOBS = os.cpu_count() or 2


class Score:
    """What a leg counted."""

    def __init__(self):
        self.passed, self.failed, self.skipped = 0, 0, 0
        self.said = []  # of what failed: its name, and where it first says so

    def add(self, ok):
        if ok:
            self.passed += 1
        else:
            self.failed += 1

    def __iadd__(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.said += other.said
        return self


def run(*command, **options):
    """Runs a command in the tree, output as it comes; true if it worked."""
    print('+', ' '.join(str(word) for word in command), flush=True)
    return subprocess.run([str(word) for word in command], cwd=ROOT, check=False, **options).returncode == 0


def quietly(*command):
    """Runs a command and shows what it printed only if it failed."""
    print('+', ' '.join(str(word) for word in command), flush=True)
    done = subprocess.run([str(word) for word in command], cwd=ROOT, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        print(done.stdout, flush=True)
    return done.returncode == 0


def sources(*suffixes):
    listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard', 'src', 'tests', 'tools', 'examples'],
                            cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout.split()
    return [name for name in listed if name.endswith(suffixes) and (ROOT / name).is_file()]


def one_line(text):
    return ' '.join(text.split())[:400]


def count_gtest(path, score):
    """Adds the cases of one gtest program; true if none failed."""
    suite = xml.etree.ElementTree.parse(path).getroot()
    clean = True
    for case in suite.iter('testcase'):
        # What a test counted that is worth reading: it says so with RecordProperty("counted", ...).
        for told in case.iter('property'):
            if told.get('name') == 'counted':
                print(f'{case.get("classname")}.{case.get("name")}: {told.get("value")}', flush=True)
        failure = case.find('failure')
        if failure is not None:
            score.failed += 1
            score.said.append(f'{case.get("classname")}.{case.get("name")}: {one_line(failure.get("message") or "")}')
            clean = False
        elif case.get('result') == 'skipped' or case.get('status') == 'notrun':
            score.skipped += 1
        else:
            score.passed += 1
    return clean


def count_unittest(output, score):
    """Adds what Python's unittest says it ran; true if it said so and none failed."""
    count = re.search(r'^Ran (\d+) test', output, re.M)
    if not count:
        return False
    told = {what: int(n) for what, n in re.findall(r'(failures|errors|skipped)=(\d+)', output)}
    bad = told.get('failures', 0) + told.get('errors', 0)
    score.failed += bad
    score.said += re.findall(r'^(?:FAIL|ERROR): (.+)$', output, re.M)
    score.skipped += told.get('skipped', 0)
    score.passed += max(0, int(count[1]) - bad - told.get('skipped', 0))
    return bad == 0 and int(count[1]) > 0


def count_program(case, counted, score):
    """One entry of ctest: a gtest program that left an XML file, a script of unittest cases, or a test by itself."""
    ok = case.get('status') == 'run'
    output = case.findtext('system-out') or ''
    if counted.is_file():
        clean = count_gtest(counted, score)
    elif re.search(r'^Ran \d+ test', output, re.M):
        clean = count_unittest(output, score)
    else:
        clean = True
        score.passed += ok
    if clean and not ok:
        score.add(False)  # each case passed, and then the program died, leaked or took too long
        score.said.append(f'{case.get("name")}: {one_line(output[-400:])}')
    return ok and clean


def run_ctest(preset, score):
    build = ROOT / 'build' / preset
    results = build / 'test-results'
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    junit = results / 'ctest.junit'
    ran = run('ctest', '--preset', preset, '-j', JOBS, '--output-junit', junit,
              env={**os.environ, 'GTEST_OUTPUT': f'xml:{results}/'})
    if not junit.is_file():
        score.add(False)
        return
    cases = list(xml.etree.ElementTree.parse(junit).getroot().iter('testcase'))
    clean = [count_program(case, results / (case.get('name') + '.xml'), score) for case in cases]
    if not cases or (not ran and all(clean)):
        score.add(False)


def build_and_test(preset, score, *extra_targets):
    if not quietly('cmake', '--preset', preset):
        score.add(False)
        return
    built = run('cmake', '--build', '--preset', preset)
    score.add(built)
    for target in extra_targets:
        score.add(run('cmake', '--build', ROOT / 'build' / preset, '--target', target))
    if built:
        run_ctest(preset, score)


def leg_scripts(score, _):
    done = subprocess.run([sys.executable, '-m', 'unittest', 'discover', '-s', 'tools/tests', '-p', 'test_*.py'],
                          cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout, flush=True)
    if not count_unittest(done.stdout, score) and score.failed == 0:
        score.add(False)


def leg_tidy(score, _):
    score.add(run(sys.executable, 'tools/tidy.py'))


def leg_format(score, _):
    score.add(quietly('clang-format-19', '--dry-run', '-Werror', *sources('.h', '.cc')))


def leg_release(score, _):
    build_and_test('release', score, 'all_verify_interface_header_sets')


def leg_asan(score, _):
    build_and_test('asan', score)


def leg_tsan(score, _):
    build_and_test('tsan', score)


def digest_of(name, seen):
    """Of a file and, through its includes, of all of ours that it sees."""
    path = ROOT / name
    if name in seen or not path.is_file():
        return b''
    seen.add(name)
    text = path.read_text()
    found = [f'src/{include}' for include in re.findall(r'^#include "([^"]+)"', text, re.M)]
    return b''.join([hashlib.sha256(text.encode()).digest()] + [digest_of(include, seen) for include in found])


def leg_lint(score, everything):
    """Reads the flags of the asan build, which is clang's."""
    commands = ROOT / 'build' / 'asan' / 'compile_commands.json'
    if not commands.is_file() and not quietly('cmake', '--preset', 'asan'):
        score.add(False)
        return
    listed = {os.path.relpath(entry['file'], ROOT) for entry in json.loads(commands.read_text())}
    cache = pathlib.Path(os.environ.get('RHIZOME_SETUP_CACHE') or pathlib.Path(
        os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache') / 'rhizome-setup') / 'lint'
    cache.mkdir(parents=True, exist_ok=True)
    settings = (ROOT / '.clang-tidy').read_bytes()

    def lint(name):
        mark = cache / hashlib.sha256(settings + name.encode() + digest_of(name, set())).hexdigest()
        if mark.exists() and not everything:
            mark.touch()
            return None
        done = subprocess.run(['clang-tidy-19', '--quiet', '-p', commands.parent, name], cwd=ROOT, check=False,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode == 0:
            mark.touch()
        else:
            print(done.stdout)
        return done.returncode == 0

    names = sorted(listed & set(sources('.cc')))
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        verdicts = list(pool.map(lint, names))
    for mark in cache.iterdir():
        if mark.stat().st_mtime < time.time() - 60 * 86400:
            mark.unlink()
    print(f'clang-tidy: {len(names) - verdicts.count(None)} files read, {verdicts.count(None)} unchanged', flush=True)
    score.add(False not in verdicts)


LEGS = {'scripts': leg_scripts, 'tidy': leg_tidy, 'format': leg_format, 'release': leg_release, 'asan': leg_asan,
        'tsan': leg_tsan, 'lint': leg_lint}


def main():
    words = [word for word in sys.argv[1:] if word != '--all']
    unknown = [word for word in words if word not in LEGS]
    if unknown:
        sys.exit(f'run_tests: no leg {unknown[0]}; there are {", ".join(LEGS)}')
    total, rows = Score(), []
    for name in words or LEGS:
        print(f'\n=== {name}', flush=True)
        score, start = Score(), time.monotonic()
        LEGS[name](score, '--all' in sys.argv)
        rows.append(f'{name:8} {score.passed:5} passed {score.failed:4} failed {score.skipped:4} skipped '
                    f'{time.monotonic() - start:7.0f} s')
        total += score
    print('\n' + '\n'.join([f'failed: {line}' for line in total.said] + rows))
    skipped = f', {total.skipped} skipped' if total.skipped else ''
    print(f'{total.passed} passed, {total.failed} failed{skipped}')
    sys.exit(1 if total.failed or not total.passed else 0)


if __name__ == '__main__':
    main()
