#!/usr/bin/env python3
"""Reads the whole tree and refuses what the style forbids. Usage: tools/tidy.py [ROOT]

Every finding has a rule, a file and a measure. tools/tidy_exceptions.txt may allow one ('rule file measure'), but only
while it is exactly that bad: what has shrunk must be lowered there, what is gone must be taken out.
"""
import ast
import collections
import os
import pathlib
import re
import subprocess
import sys

FILE_LINES = 800
FUNCTION_LINES = 70
README_LINES = 15
LINE_WIDTH = 120
COMMIT_TREES = ('build/', '.cache/')

CPP = ('.h', '.cc')
SCRIPTS = ('.py', '.cmake', 'CMakeLists.txt', '.sh', 'Makefile')

# A call or a type, the layers that may name it, what everybody else uses. 'tests' stands for the tests of every layer.
BANNED = [
    (r'std::(recursive_|timed_|shared_)*mutex\b|std::condition_variable|std::(lock_guard|unique_lock|scoped_lock)\b',
     ['concurrency'], 'Mutex and MutexLock of concurrency/mutex.h, which carry the lock annotations'),
    (r'\b(system|steady|high_resolution)_clock\b|\bclock_gettime\s*\(|\bgettimeofday\s*\(|std::time\s*\(',
     ['machine'], 'machine/clock.h'),
    (r'\bs?rand\s*\(|\bgetrandom\s*\(|\bgetentropy\s*\(', ['machine'], 'machine/random.h'),
    (r'std::random_device', ['machine', 'tests'], 'machine/random.h'),
    (r'\bsleep_(for|until)\b|\b(u|nano)?sleep\s*\(', ['machine'], 'machine/clock.h, and in a test never'),
    (r'std::j?thread\b|\bpthread_create\s*\(', ['machine'], 'machine/thread.h'),
    (r'\bv?fork\s*\(|\bexec[lv]p?e?\s*\(|\bposix_spawnp?\s*\(|std::system\s*\(|\bpopen\s*\(', ['machine'],
     'machine/process.h'),
    (r'(?<!s)\bmmap\s*\(|\bmunmap\s*\(|\bshm_open\s*\(', ['machine'], 'machine/mapping.h'),
    (r'\bf?reopen\s*\(|\bfopen\s*\(|std::[io]?fstream\b', ['machine', 'tests'], 'machine/files.h'),
    (r'\bthrow\b(?!\s*\(\s*\))', [], 'a Result (contract/result.h): errors are values'),
    (r'std::shared_ptr\b|std::make_shared\b', [], 'std::unique_ptr for what owns, a reference for what borrows'),
    (r'\bassert\s*\(', [], 'RHIZOME_CHECK or RHIZOME_DCHECK of contract/check.h'),
    (r'\bstrcpy\s*\(|\bsprintf\s*\(|\bstrcat\s*\(|\bgets\s*\(', [], 'a call that is told how much room there is'),
    (r'\bstd::endl\b', [], "'\\n'"),
    (r'\busing namespace (std|boost|testing|nlohmann)\s*;', [], 'the names that are meant'),
]

# Where the bytes of blocks are handled they are copied by one function, which counts: a hit can then be shown to copy
# none. What is allowed beside it stands in tools/tidy_exceptions.txt, with the reason.
BLOCK_LAYERS = ['client', 'slab', 'store']
BLOCK_COPY = re.compile(r'\b(?:__builtin_)?(?:mem(?:p?cpy|move|ccpy)|bcopy)\b|'
                        r'\bstd::(?:ranges::)?(?:uninitialized_)?copy(?:_n|_if|_backward)?\b|'
                        r'\bstd::(?:ranges::)?(?:uninitialized_move(?:_n)?|move_backward)\b|'
                        # The algorithm, which has a comma between its arguments, and not the cast.
                        r'\bstd::(?:ranges::)?move\s*\((?:[^(),]|\((?:[^()]|\([^()]*\))*\))*,|'
                        r'\b_mm\d*_(?:mask_)?stream_\w+')

# A third party is named in the layers listed here and nowhere else. Tests may use the test library.
THIRD_PARTY = [
    (r'tl/', ['contract']),
    (r'openssl/', ['block', 'codec']),
    (r'xxhash\.h', ['block', 'bench']),
    (r'fmt/|spdlog/', ['telemetry']),
    (r'CLI/', ['cli', 'bench']),
    (r'nlohmann/', ['cli', 'bench']),
    (r'boost/', ['serve/http', 'bench']),
    (r'zstd\.h', ['bench', 'codec']),
    (r'prometheus/', ['serve/http']),
    (r'(llama|ggml|gguf|ggml-[a-z]+|llama-cpp)\.h$', ['engine/llama']),
]

BAD_NAME = re.compile(r'\b(?:class|struct|enum class)\s+(?:\w+\s*\([^)]*\)\s*)?'
                      r'(\w*(?:Manager|Helpers?|Utils?|Utility|Common|Misc|Data|Info|Impl))\b(?!\s*;)')
# A test, or what several tests of a layer stand on.
TEST_FILE = re.compile(r'^tests/|_(test|fuzz)\.cc$|_fixture\.(h|cc)$|/test_\w+\.(h|cc)$')
NAMES_ALLOWED = {'CounterInfo'}
BAD_FILE = re.compile(r'(^|_)(manager|helpers?|utils?|common|misc|data|info|impl)(_test)?\.(h|cc|py)$')
MARKS = re.compile(r'\b(TO' r'DO|FIX' r'ME|XX' r'X|HA' r'CK)\b')
# Registries and this or that machine's folders have no business in the tree.
PLACES = re.compile(r'registry\.npmjs|npmjs\.(com|org)|pypi\.(org|python)|files\.pythonhosted|crates\.io|'
                    r'deb\.debian\.org|(?<![\w.])/(root|work)/')


class Findings:
    def __init__(self):
        self.measures = collections.Counter()
        self.lines = collections.defaultdict(list)

    def add(self, rule, name, line, what, measure=1):
        self.measures[rule, name] = max(self.measures[rule, name], measure) if measure > 1 else (
            self.measures[rule, name] + 1)
        self.lines[rule, name].append(f'{name}:{line}: {what}' if line else f'{name}: {what}')


def blanked(text):
    """C++ with comments, strings and characters blanked out, line by line as long as before."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
                         re.S)

    def blank(found):
        return re.sub(r'[^\n]', ' ', found[0])
    return pattern.sub(blank, text)


def functions_of(code):
    """(name, first line, number of lines) of each function in blanked C++."""
    found, stack, head, head_line, line = [], [], '', 1, 1
    for char in code:
        if char == '\n':
            line += 1
        if char == '{' and re.search(r'\)[\w\s]*:(?!:).*\w$', head, re.S):
            stack.append(('initializer', head, head_line))  # the braces of a member in a constructor's list
            head = ''
        elif char == '{':
            scope = bool(re.search(r'\b(namespace|class|struct|union|enum|extern)\b', head)) and not re.search(r'\)\s*$', head)
            named = re.search(r'([~\w:]+|operator\S+)\s*\(', head)
            outside = all(kind == 'scope' for kind, *_ in stack)
            is_function = outside and not scope and named and not re.search(r'=\s*$', head)
            stack.append(('scope' if scope else 'function' if is_function else 'block', named and named[1], head_line))
            head = ''
        elif char == '}' and stack:
            kind, name, first = stack.pop()
            if kind == 'function':
                found.append((name, first, line - first + 1))
            head, head_line = (name + '()', first) if kind == 'initializer' else ('', line)
        elif char == ';':
            head = ''
        elif head or not char.isspace():
            head_line = head_line if head else line
            head += char
    return found


def layer_of(name, layers):
    """'src/engine/llama/probe.cc' -> 'engine/llama'."""
    parts = name.split('/')[1:-1]
    for n in range(len(parts), 0, -1):
        if '/'.join(parts[:n]) in layers:
            return '/'.join(parts[:n])
    return None


def check_cpp(name, text, layer, findings):
    code = blanked(text)
    is_test = bool(TEST_FILE.search(name))
    for function, first, count in functions_of(code):
        if count > FUNCTION_LINES:
            findings.add('function-lines', name, first, f'{function} has {count} lines, the limit is {FUNCTION_LINES}', count)
    if name.endswith('.h') and '#pragma once' not in text:
        findings.add('pragma-once', name, 1, 'a header begins with #pragma once')
    for number, line in enumerate(code.splitlines(), 1):
        for pattern, allowed, instead in BANNED if name.startswith('src/') else ():
            hit = re.search(pattern, line)
            if hit and layer not in allowed and not (is_test and 'tests' in allowed):
                findings.add('banned', name, number, f'{hit[0].strip()} is banned here: use {instead}')
        if name.startswith('src/') and layer in BLOCK_LAYERS and not is_test:
            for copy in BLOCK_COPY.finditer(line):
                findings.add('block-copy', name, number,
                             f'{copy[0].strip()} is banned here: use copy_block_bytes() of slab/block_copy.h, which counts')
        bad = BAD_NAME.search(line)
        if bad and bad[1] not in NAMES_ALLOWED:
            findings.add('name', name, number, f'{bad[1]}: name the noun that it is')
    for number, line in enumerate(text.splitlines(), 1):
        include = re.match(r'\s*#\s*include\s+[<"]([^>"]+)', line)
        for pattern, allowed in THIRD_PARTY if include and name.startswith('src/') else ():
            if re.match(pattern, include[1]) and layer not in allowed:
                findings.add('third-party', name, number, f'{include[1]} is named in {" and ".join(allowed)} only')
        if include and include[1].startswith('gtest/') and not is_test and layer:
            findings.add('third-party', name, number, 'the test library is for tests')


def check_python(name, text, findings):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            count = node.end_lineno - node.lineno + 1
            if count > FUNCTION_LINES:
                findings.add('function-lines', name, node.lineno,
                             f'{node.name} has {count} lines, the limit is {FUNCTION_LINES}', count)


def check_document(name, text, findings):
    titles = [line for line in re.sub(r'^```.*?^```', '', text, flags=re.S | re.M).splitlines() if re.match(r'# ', line)]
    if len(titles) != 1:
        findings.add('title', name, 1, f'a document has one title, this one {len(titles)}')


def check_layers(layers, files, findings):
    for layer in layers:
        readme = f'src/{layer}/README.md'
        if readme not in files:
            findings.add('readme', readme, 0, f'layer {layer} does not say what it owns and may name')
        elif len(files[readme].splitlines()) > README_LINES:
            findings.add('readme', readme, 0, f'longer than {README_LINES} lines')


def check_file(name, text, layer, findings):
    count = len(text.splitlines())
    if name.endswith(CPP + SCRIPTS) and count > FILE_LINES:
        findings.add('file-lines', name, count, f'{count} lines, the limit is {FILE_LINES}', count)
    if BAD_FILE.search(os.path.basename(name)):
        findings.add('name', name, 0, 'name the noun that it holds')
    for number, line in enumerate(text.splitlines(), 1):
        if name.endswith(CPP + SCRIPTS) and len(line) > LINE_WIDTH:
            findings.add('line-width', name, number, f'{len(line)} characters, the limit is {LINE_WIDTH}')
        if MARKS.search(line):
            findings.add('mark', name, number, 'do it, or file it: no marks in the tree')
        if PLACES.search(line):
            findings.add('place', name, number, "a registry's name or a machine's own folder")
        if line.rstrip() != line and not name.endswith('.patch'):
            findings.add('space', name, number, 'space at the end of the line')
    if name.endswith(CPP):
        check_cpp(name, text, layer, findings)
    elif name.endswith('.py'):
        check_python(name, text, findings)
    elif name.endswith('.md'):
        check_document(name, text, findings)


def read_tree(root):
    listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard', '-z'], cwd=root, check=True,
                            stdout=subprocess.PIPE).stdout.decode().split('\0')
    files = {}
    for name in sorted(filter(None, listed)):
        if name.startswith(COMMIT_TREES) or not (root / name).is_file():
            continue
        try:
            files[name] = (root / name).read_text()
        except UnicodeDecodeError:
            continue
    return files


def allowances(files):
    allowed = {}
    for line in files.get('tools/tidy_exceptions.txt', '').splitlines():
        if line.strip() and not line.startswith('#'):
            rule, name, measure = line.split()
            allowed[rule, name] = int(measure)
    return allowed


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    files, findings = read_tree(root), Findings()
    layers = {os.path.dirname(name)[4:] for name in files if re.match(r'src/.+/CMakeLists\.txt$', name)}
    for name, text in files.items():
        if name not in ('tools/tidy.py', 'LICENSE') and not name.startswith('tools/tests/'):
            check_file(name, text, layer_of(name, layers) if name.startswith('src/') else None, findings)
    check_layers(sorted(layers), files, findings)

    bad, allowed = [], allowances(files)
    for key, measure in sorted(findings.measures.items()):
        limit = allowed.pop(key, 0)
        if measure > limit:
            bad += findings.lines[key]
        elif measure < limit:
            bad.append(f'{key[1]}: {key[0]} has shrunk to {measure}: lower it in tools/tidy_exceptions.txt')
    bad += [f'{name}: {rule} is gone: take it out of tools/tidy_exceptions.txt' for rule, name in sorted(allowed)]
    print('\n'.join(bad + [f'tidy: {len(files)} files read, {len(bad)} findings']))
    sys.exit(1 if bad else 0)


if __name__ == '__main__':
    main()
