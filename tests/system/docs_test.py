"""What README.md, docs/ and examples/ say is so: what they show is run, what they name exists.

Fenced blocks. A block marked `sh` is run; `text` is what is shown and not run; other marks are refused. The blocks of
one page are one session: they run in order, in the tree, each in a shell that stops at the first command that fails. A
block that begins with `rhizome serve` or `rhizome run ... -- llama-server` starts a server in the background, which
answers the blocks behind it until another server begins or the page ends; then it gets SIGTERM and must end with
status 0.

What is replaced before a block is run:

  MODEL.gguf               the two-layer model that tools/setup made
  --port 8080              --port 0; 8080 in later blocks becomes the port that the server says it has
  --metrics-port 9090      --metrics-port 0; 9090 in later blocks likewise
  rhizome, llama-server    are found in the build's bin/ and libexec/stock/ (PATH)

and engines use one thread (LLAMA_ARG_THREADS). docs/reference.md is made by the program and has tests of its own.
"""
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import unittest

import program

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = sorted(path for path in (ROOT / 'docs').glob('*.md') if path.name != 'reference.md')
PAGES = [ROOT / 'README.md', *DOCS]
EXAMPLES = sorted(path for path in (ROOT / 'examples').iterdir() if path.is_file())
C_INTERFACE = ROOT / 'include/rhizome/rhizome.h'
LINE_WIDTH = 120
README_LINES = 150
PLACEHOLDER = re.compile(r'%%\w+%%')
SERVER_BLOCK = re.compile(r'rhizome (serve|run\b.*-- *llama-server)\b')


def name_of(path):
    return str(path.relative_to(ROOT))


def blocks_of(page):
    """(line number, mark, text) of each fenced block."""
    blocks, mark, lines = [], None, []
    for number, line in enumerate(page.read_text().split('\n'), 1):
        if not line.startswith('```'):
            lines.append(line)
        elif mark is None:
            mark, lines, start = line[3:].strip(), [], number
        else:
            blocks.append((start, mark, '\n'.join(lines)))
            mark = None
    assert mark is None, f'{page}: a block is not closed'
    return blocks


def prose_of(page):
    return re.sub(r'(?ms)^```.*?^```$', '', page.read_text())


def code_spans(page):
    return re.findall(r'`([^`\n]+)`', prose_of(page))


def tracked_files():
    skipped = {'build', '.git', '.cache', '__pycache__'}
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in skipped]
        for name in files:
            yield pathlib.Path(folder) / name


def sources():
    """The text of each source file."""
    return {path: path.read_text() for folder in ('include', 'src') for path in (ROOT / folder).rglob('*')
            if path.suffix in ('.h', '.cc', '.def')}


class Session:
    """Runs the blocks of one page."""

    def __init__(self, case):
        self.case = case
        self.server = None
        self.ports = {}
        self.environment = {
            **case.environment, 'LLAMA_ARG_THREADS': '1',
            'PATH': f'{program.BUILD / "bin"}:{program.BUILD / "libexec" / "stock"}:{os.environ["PATH"]}'}

    def replaced(self, text):
        text = text.replace('MODEL.gguf', str(program.MODEL))
        text = text.replace('--port 8080', '--port 0').replace('--metrics-port 9090', '--metrics-port 0')
        for written in ('8080', '9090'):
            if re.search(rf'\b{written}\b', text):
                self.case.assertIn(written, self.ports, f'no server has been started with port {written}: {text}')
                text = re.sub(rf'\b{written}\b', self.ports[written], text)
        return text

    def run(self, where, text):
        if SERVER_BLOCK.match(text):
            self.start(where, text)
            return
        done = subprocess.run(['bash', '-euo', 'pipefail', '-c', self.replaced(text)], cwd=ROOT, env=self.environment,
                              text=True, check=False, timeout=program.PATIENCE, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.case.assertEqual(done.returncode, 0, f'{where}: {text}\n{done.stdout}')

    def start(self, where, text):
        self.stop()
        self.ports = {}
        words = shlex.split(self.replaced(text), comments=True)
        self.case.assertEqual(words[0], 'rhizome', where)
        self.server = program.Running([program.PROGRAM, *words[1:]], self.environment)
        self.case.addCleanup(self.server.end)
        if '--metrics-port' in words:
            self.ports['9090'] = self.server.wait_for_line(r'metrics at http://127\.0\.0\.1:(\d+)/')[1]
        self.server.wait_until_listening()
        self.ports['8080'] = self.server.url.rsplit(':', 1)[1]

    def stop(self):
        if self.server is None:
            return ''
        server, self.server = self.server, None
        server.process.send_signal(signal.SIGTERM)
        status, said, _ = server.finish()
        self.case.assertEqual(status, 0, said)
        return said


class Blocks(program.Case):
    def test_marks(self):
        for page in PAGES:
            for line, mark, text in blocks_of(page):
                self.assertIn(mark, ('sh', 'text'), f'{name_of(page)}:{line}: mark it sh (it is run) or text')
                self.assertTrue(text.strip(), f'{name_of(page)}:{line}: an empty block')

    def test_shell_blocks_run(self):
        ran = 0
        for page in PAGES:
            blocks = [(line, text) for line, mark, text in blocks_of(page) if mark == 'sh']
            with self.subTest(page=name_of(page)):
                session = Session(self)
                for line, text in blocks:
                    session.run(f'{name_of(page)}:{line}', text)
                    ran += 1
                session.stop()
        self.assertGreater(ran, 5)

    def test_make_targets_exist(self):
        targets = set(re.findall(r'^([a-z]+):', (ROOT / 'Makefile').read_text(), re.M))
        for page in PAGES:
            shown = '\n'.join([*code_spans(page), *(text for _, _, text in blocks_of(page))])
            for target in re.findall(r'\bmake ([a-z]+)', shown):
                self.assertIn(target, targets, f'{name_of(page)}: make {target}')


class Examples(program.Case):
    def setUp(self):
        super().setUp()
        self.session = Session(self)

    def serve(self):
        """A server that knows its weights: nothing is cached before."""
        self.session.environment.update(program.LOGS_WEIGHTS)
        self.session.start('a test', 'rhizome serve -m MODEL.gguf -c 4096 -np 4 --port 8080 --metrics-port 9090')
        self.session.server.wait_for_weights()

    def call_program(self, *words, **variables):
        done = subprocess.run(list(map(str, words)), cwd=ROOT, text=True, check=False, timeout=program.PATIENCE,
                              env={**self.session.environment, **variables},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, f'{words}\n{done.stderr}')
        return done.stdout

    def metric(self, name):
        """A metric's sum over its labels."""
        text = self.session.server.get('/metrics', f'http://127.0.0.1:{self.session.ports["9090"]}')
        return sum(float(value) for value in re.findall(rf'^{name}(?:{{.*}})? (\S+)$', text, re.M))

    def test_all_are_tested(self):
        self.assertEqual([path.name for path in EXAMPLES], ['agents.py', 'engine.c', 'requests.sh', 'rhizome.service'])

    def test_agents(self):
        self.serve()
        names = ('rhizome_tokens_looked_up_total', 'rhizome_tokens_restored_total')
        before = [self.metric(name) for name in names]
        said = self.call_program(ROOT / 'examples/agents.py', '--url', self.session.server.url, '--agents', '3',
                                 '--rounds', '2', '--tokens', '4')
        rows = re.findall(r'^ +(\d+)  \w+ +(\d+) +(\d+) +(\d+) +[\d.]+$', said, re.M)
        self.assertEqual([row[0] for row in rows], ['1', '1', '1', '2', '2', '2'], said)
        counts = [tuple(map(int, row[1:])) for row in rows]
        for prompt, cached, computed in counts:
            self.assertEqual(prompt, cached + computed)
        self.assertLess(counts[0][1], 0.1 * counts[0][0], said)
        for prompt, cached, _ in counts[1:]:
            self.assertGreater(cached, 0.9 * prompt, said)
        total = f'{sum(count[1] for count in counts)} of {sum(count[0] for count in counts)} prompt tokens were cached'
        self.assertIn(total, said)
        # The server's figures are the library's.
        grown = [self.metric(name) - value for name, value in zip(names, before)]
        self.assertEqual(grown, [sum(count[0] for count in counts), sum(count[1] for count in counts)])

    def test_agents_without_a_server(self):
        done = subprocess.run([ROOT / 'examples/agents.py', '--url', 'http://127.0.0.1:1'], text=True, check=False,
                              capture_output=True, timeout=program.PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r'^agents.py: no answer: .*\n$')

    def test_requests(self):
        self.serve()
        said = self.call_program(ROOT / 'examples/requests.sh', URL=self.session.server.url)
        cached = [int(number) for number in re.findall(r' (\d+) of +\d+ prompt tokens cached$', said, re.M)]
        self.assertEqual(len(cached), 7, said)
        first, shared, bypassed, salted, salted_again, other_salt, plain = cached
        self.assertLess(first, 8, said)
        self.assertEqual((bypassed, salted, other_salt), (0, 0, 0), said)
        for number in (shared, salted_again, plain):
            self.assertGreater(number, 32, said)

    def unit(self):
        """The unit's settings as (name, value), lines joined."""
        text = (ROOT / 'examples/rhizome.service').read_text().replace('\\\n', ' ')
        return [line.split('=', 1) for line in text.split('\n') if '=' in line and not line.startswith('#')]

    def test_service(self):
        for words in (value for name, value in self.unit() if name == 'Environment'):
            for word in shlex.split(words):
                name, value = word.split('=', 1)
                self.session.environment.setdefault(name, value)
        # What differs between the machine of the unit and this one.
        self.session.environment.update(MODEL=str(program.MODEL), MEMORY='256MiB')
        commands = [value for name, value in self.unit() if name == 'ExecStart']
        self.assertEqual(len(commands), 1)
        line = commands[0].replace('/usr/local/bin/rhizome', 'rhizome')
        line = re.sub(r'\$\{(\w+)\}', lambda found: self.session.environment[found[1]], line)
        self.session.start('examples/rhizome.service', line)
        self.assertIn('"ok"', self.session.server.get('/health'))
        metrics = self.session.server.get('/metrics', f'http://127.0.0.1:{self.session.ports["9090"]}')
        self.assertIn(f'rhizome_memory_capacity_bytes{{tier="slab"}} {256 << 20}', metrics)
        self.assertIn('rhizome: no prompt was looked up', self.session.stop())

    @unittest.skipUnless(shutil.which('systemd-analyze'), 'no systemd here')
    def test_service_is_a_unit(self):
        unit = self.folder / 'rhizome.service'
        unit.write_text((ROOT / 'examples/rhizome.service').read_text().replace('/usr/local/bin/rhizome',
                                                                               str(program.PROGRAM)))
        done = subprocess.run(['systemd-analyze', 'verify', '--man=no', unit], text=True, check=False,
                              capture_output=True, timeout=program.PATIENCE)
        complaints = [line for line in done.stderr.split('\n') if 'rhizome.service' in line]
        self.assertEqual(complaints, [], done.stderr)


class Names(unittest.TestCase):
    """What the pages name is there."""

    @classmethod
    def setUpClass(cls):
        cls.sources = sources()
        cls.code = '\n'.join(cls.sources.values())
        cls.files = {str(path.relative_to(ROOT)) for path in tracked_files()}
        cls.base_names = {name.rsplit('/', 1)[-1] for name in cls.files}

    def each_span(self, pattern):
        for page in PAGES:
            for span in code_spans(page):
                if found := re.fullmatch(pattern, span):
                    yield name_of(page), found

    def test_files(self):
        path = r'(?!build/|libexec/)[\w.+-]+(?:/[\w.+-]+)+/?'
        plain = r'(?!lib)\w[\w.-]*\.(?:h|cc|py|sh|md|def|map|patch|service|cmake)'
        checked = 0
        for page, found in self.each_span(f'{path}|{plain}'):
            checked += 1
            name = found[0].rstrip('/')
            there = any((base / name).exists() for base in (ROOT, ROOT / 'src', ROOT / 'docs'))
            self.assertTrue(there or name in self.base_names, f'{page}: there is no {found[0]}')
        self.assertGreater(checked, 50)

    def test_functions(self):
        checked = 0
        for page, found in self.each_span(r'(?:([A-Z]\w+)::)?(\w+)(\(\))?'):
            owner, name, call = found.groups()
            if not owner and not call:
                continue
            checked += 1
            texts = [self.code]
            if owner:
                declared = re.search(rf'\b(?:class|struct|enum class) (?:\w+\([^)]*\) )?{owner}\b', self.code)
                self.assertTrue(declared, f'{page}: there is no type {owner}')
                texts = [text for text in self.sources.values() if re.search(rf'\b{owner}\b', text)]
            pattern = re.compile(rf'\b{name}\(' if call else rf'\b{name}\b')
            self.assertTrue(any(pattern.search(text) for text in texts), f'{page}: there is no {found[0]}')
        self.assertGreater(checked, 80)

    def test_types_and_constants(self):
        for page, found in self.each_span(r'[A-Z][a-z]+[A-Za-z]*|k[A-Z]\w+'):
            there = (ROOT / found[0]).exists() or re.search(rf'\b{found[0]}\b', self.code)
            self.assertTrue(there, f'{page}: there is no {found[0]}')

    def test_functions_of_the_engine(self):
        named = set(re.findall(r'\bllama_\w+', self.code))
        named |= {f'llama_{name}' for name in re.findall(r'\bF\((\w+)\)', self.code)}
        for page, found in self.each_span(r'llama_\w+'):
            self.assertTrue(found[0] in named or found[0] == 'llama_', f'{page}: there is no {found[0]}')

    def test_tests(self):
        cases = set(re.findall(r'\bTEST(?:_F|_P)?\((\w+), (\w+)\)', self.code))
        checked = 0
        for page, found in self.each_span(r'([A-Z]\w+)\.([A-Z]\w+)'):
            checked += 1
            self.assertTrue(found.groups() in cases, f'{page}: there is no test {found[0]}')
        self.assertGreater(checked, 20)

    def test_every_flow_says_what_proves_it(self):
        for page in DOCS:
            if page.name not in ('glossary.md', 'README.md'):
                self.assertIn('\n## Tests that prove it\n', page.read_text(), name_of(page))

    def test_metrics(self):
        labels = {}
        for name, text in re.findall(r'RHIZOME_COUNTER\(\w+, \w+, "(\w+)", "((?:[^"\\]|\\.)*)"', self.code):
            labels.setdefault(name, '')
            labels[name] += text.replace('\\', '') + ','
        aliases = re.findall(r'"(phantom_\w+)"', (ROOT / 'src/serve/http/exposition.cc').read_text())
        self.assertTrue(labels and aliases)
        no_metrics = {'rhizome_restore_v1'} | set(re.findall(r'\brhizome_\w+', C_INTERFACE.read_text()))
        for path in [*PAGES, *EXAMPLES]:
            for name, braces in re.findall(r'\b((?:rhizome|phantom)_\w+)(?:\{([^}]*)\})?', path.read_text()):
                if name in no_metrics:
                    continue
                self.assertTrue(name in labels or name in aliases, f'{name_of(path)}: there is no metric {name}')
                for label in filter(None, braces.split(',')):
                    self.assertIn(label, labels[name], f'{name_of(path)}: {name}')

    def test_reasons(self):
        reasons = re.findall(r'"(\w+)"', (ROOT / 'src/block/reason.cc').read_text())
        table = (ROOT / 'docs/lookup.md').read_text().split('## Why a look-up stopped')[1]
        named = re.findall(r'^\| `(\w+)` \|', table, re.M)
        self.assertGreater(len(named), 5)
        self.assertLessEqual(set(named), set(reasons))

    def test_environment_variables(self):
        known = self.code + ''.join((ROOT / name).read_text() for name in ('tools/setup', 'cmake/Llama.cmake'))
        for path in [*PAGES, *EXAMPLES]:
            for name in re.findall(r'\bRHIZOME_[A-Z_]*[A-Z]\b', path.read_text()):
                self.assertTrue(re.search(rf'\b{name}\b', known), f'{name_of(path)}: nothing reads {name}')

    def test_figures(self):
        rows = dict(re.findall(r'^\| `(\w+)` \| \w+ \| .* \| ([^|]+) \|$', (ROOT / 'docs/bench.md').read_text(), re.M))
        bounds = re.findall(r'\{"(\w+)", ([\w.]+), ([\w.]+)\}', (ROOT / 'src/bench/figures.cc').read_text())
        self.assertGreater(len(bounds), 15)
        for name, least, most in bounds:
            least, most = ('' if text == 'kNone' else f'{float(text):g}' for text in (least, most))
            says = f'{least} to {most}' if least and most else f'at least {least}' if least else f'at most {most}'
            self.assertEqual(rows.pop(name, 'nothing'), says, name)
        self.assertEqual(rows, {}, 'without a bound in src/bench/figures.cc')

    def test_links(self):
        for page in PAGES:
            for target in re.findall(r'\]\(([^)#]+)(?:#[^)]*)?\)', prose_of(page)):
                if not re.match(r'https?://', target):
                    self.assertTrue((page.parent / target).exists(), f'{name_of(page)}: {target}')


class Flags(program.Case):
    FLAG = re.compile(r'(?<![\w-])--[a-z][a-z-]+')

    def help_of(self, *words):
        done = subprocess.run(list(map(str, words)), text=True, check=False, capture_output=True, cwd=ROOT,
                              env=self.environment, timeout=program.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return set(self.FLAG.findall(done.stdout))

    def test_the_table_of_the_readme(self):
        flags = self.help_of(program.PROGRAM, 'serve', '--help')
        rows = re.findall(r'^\| `(--[a-z-]+)', (ROOT / 'README.md').read_text(), re.M)
        self.assertGreater(len(rows), 5)
        for flag in rows:
            self.assertTrue(flag in flags, f'README.md: there is no flag {flag}')

    def test_every_flag_is_one(self):
        flags = (self.help_of(program.PROGRAM, 'serve', '--help') | self.help_of(program.PROGRAM, 'bench', '--help') |
                 self.help_of(program.PROGRAM, 'replay', '--help') |
                 self.help_of(program.PROGRAM, 'inspect', '--help') |
                 self.help_of(program.PROGRAM, 'clear', '--help') |
                 self.help_of(program.STOCK_SERVER, '--help') | self.help_of(ROOT / 'examples/agents.py', '--help') |
                 self.help_of(ROOT / 'tools/setup', '--help') | self.help_of(program.PROGRAM, '--help') |
                 set(self.FLAG.findall((ROOT / 'examples/engine.c').read_text())) | {'--cflags', '--libs'})
        for page in PAGES:
            for flag in self.FLAG.findall(page.read_text()):
                self.assertTrue(flag in flags, f'{name_of(page)}: there is no flag {flag}')


class Form(unittest.TestCase):
    def test_width(self):
        for path in [*PAGES, *EXAMPLES]:
            for number, line in enumerate(path.read_text().split('\n'), 1):
                self.assertLessEqual(len(PLACEHOLDER.sub('0.000', line)), LINE_WIDTH, f'{name_of(path)}:{number}')

    def test_the_readme_is_short(self):
        self.assertLessEqual(len((ROOT / 'README.md').read_text().split('\n')), README_LINES)

    def test_no_number_is_left_to_be_filled_in(self):
        left = sorted({found for page in PAGES for found in PLACEHOLDER.findall(page.read_text())})
        self.assertEqual(left, [])


if __name__ == '__main__':
    unittest.main()
