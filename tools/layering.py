"""Stops the build at an include that its layer does not name. Usage: layering.py SRC LAYERS STAMP

LAYERS is written by rhizome_layer(): one line a layer, fields divided by '|'. An include below SRC must name a public
header of a layer that is named, or any header of the file's own layer. A test may also use what TEST_USES names and the
test headers of every layer that it may use.
"""
import pathlib
import re
import sys

src, stamp = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[3])
uses, public, own, tests, test_uses, test_public = {}, {}, {}, {}, {}, {}
for line in pathlib.Path(sys.argv[2]).read_text().splitlines():
    name, *lists = line.split('|')
    uses[name], public[name], own[name], tests[name], test_uses[name], test_public[name] = (
        set(re.split(r'[; ]+', text)) - {''} for text in lists)


def split(path):
    """'tier/nvme/ring_tier.h' -> ('tier/nvme', 'ring_tier.h'): the deepest declared layer wins."""
    parts = path.split('/')
    for n in range(len(parts) - 1, 0, -1):
        if '/'.join(parts[:n]) in uses:
            return '/'.join(parts[:n]), '/'.join(parts[n:])
    return None, path


def fault_of(target, layer, allowed, is_test):
    """What is wrong with including `target` in a file of `layer`, or nothing."""
    head, tail = split(target)
    if not target:
        return 'computed include'
    if '..' in target.split('/'):
        return f'"{target}" climbs out of its layer'
    if head is None:
        return None
    if head != layer and head not in allowed:
        return f'layer {layer} does not name {head}'
    if head != layer and tail not in public[head] | (test_public[head] if is_test else set()):
        return f'"{target}" is private to {head}'
    if head == layer and not is_test and tail in tests[layer] | test_public[layer]:
        return f'"{target}" is for tests only'
    return None


include = re.compile(r'^\s*#\s*include\s+(?:["<]([^">]+)[">])?')
bad = []
for path in sorted(p for p in src.rglob('*') if p.suffix in ('.h', '.cc')):
    layer, name = split(path.relative_to(src).as_posix())
    if layer is None or name not in public[layer] | own[layer] | tests[layer] | test_public[layer]:
        bad.append(f'{path}: listed by no layer')
        continue
    is_test = name in tests[layer] | test_public[layer]
    allowed = uses[layer] | (test_uses[layer] if is_test else set())
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = include.match(line)
        fault = found and fault_of(found[1] or '', layer, allowed, is_test)
        if fault:
            bad.append(f'{path}:{number}: {fault}')
for layer in uses:
    for name in sorted(public[layer] | own[layer] | tests[layer] | test_public[layer]):
        if not (src / layer / name).is_file():
            bad.append(f'layer {layer} lists {name}, which is not there')
if bad:
    sys.exit('\n'.join(bad))
stamp.touch()
