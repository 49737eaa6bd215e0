"""Gets the adapters of the peers ready under build/peers/: what they need is fetched and built once."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / 'bench' / 'peers'
BUILT = ROOT / 'build' / 'peers'
# What the environment of SGLang's adapter takes, and room to unpack it.
SGLANG_DISK_BYTES = 8 << 30


class Failed(Exception):
    """Its text is for whoever called."""


def say(what):
    print(f'bench-peers: {what}', file=sys.stderr, flush=True)


def logged(log, command, **options):
    """Runs a command, output to the log's end; true if it worked."""
    with log.open('a') as out:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False,
                              **options).returncode == 0


def new_log(name):
    BUILT.mkdir(parents=True, exist_ok=True)
    log = BUILT / name
    log.write_text('')
    return log


def dynamo():
    """The command of the adapter for Dynamo's indexers, built with cargo."""
    if shutil.which('cargo') is None:
        raise Failed('cargo is missing: install Rust 1.85 or newer, with cargo in PATH')
    log = new_log('cargo.log')
    say(f'building the adapter for Dynamo (some minutes the first time; {log.relative_to(ROOT)})')
    if not logged(log, ['cargo', 'build', '--release', '--target-dir', BUILT / 'dynamo'], cwd=PEERS / 'dynamo'):
        tail = log.read_text().splitlines()[-15:]
        raise Failed('\n'.join(['cargo could not build the adapter for Dynamo:', *tail]))
    return [BUILT / 'dynamo' / 'release' / 'dynamo_peer']


def sglang():
    """The command of the adapter for SGLang's trees, in an environment of its own, which is kept."""
    requirements = PEERS / 'sglang' / 'requirements.txt'
    place = BUILT / 'sglang'
    made_from = place / 'made_from.txt'
    command = [place / 'bin' / 'python', '-W', 'ignore', PEERS / 'sglang' / 'replay.py']
    if made_from.exists() and made_from.read_text() == requirements.read_text() and command[0].exists():
        return command
    log = new_log('pip.log')
    say(f'making the environment for SGLang (3 GB are fetched, some minutes; {log.relative_to(ROOT)})')
    shutil.rmtree(place, ignore_errors=True)
    if shutil.disk_usage(BUILT).free < SGLANG_DISK_BYTES:
        raise Failed(f'{SGLANG_DISK_BYTES >> 30} GiB of disk are needed to make its environment')
    # Their wheels are for some versions of Python: the first interpreter that pip finds all of them for.
    why = 'no Python with the modules venv and ensurepip is in PATH'
    for version, python in interpreters().items():
        if environment_is_made(python, place, requirements, log):
            made_from.write_text(requirements.read_text())
            return command
        shutil.rmtree(place, ignore_errors=True)
        why = f'with Python {version}: {last_error(log)}'
    raise Failed(f'its environment could not be made; {why} ({log.relative_to(ROOT)})')


def environment_is_made(python, place, requirements, log):
    pip = [place / 'bin' / 'python', '-m', 'pip', 'install', '--disable-pip-version-check', '--no-input']
    wheels = ['--retries', '1', '--no-cache-dir', '--no-deps', '--only-binary', ':all:', '--progress-bar', 'off']
    loads = [place / 'bin' / 'python', '-W', 'ignore', '-c', 'import trees; [trees.load(name) for name in trees.NAMES]']
    return (logged(log, [python, '-m', 'venv', place])
            and logged(log, [*pip, *wheels, '--requirement', requirements])
            and logged(log, loads, cwd=PEERS / 'sglang'))


def interpreters():
    """Version -> an interpreter that can make environments: this one's first, then the newest first."""
    found = {}
    named = [path for folder in os.get_exec_path() if pathlib.Path(folder).is_dir()
             for path in sorted(pathlib.Path(folder).iterdir()) if re.fullmatch(r'python3(\.\d+)?', path.name)]
    question = 'import ensurepip, sys, venv; print("%d.%d" % sys.version_info[:2])'
    for python in [sys.executable, *named]:
        try:
            answer = subprocess.run([python, '-c', question], stdin=subprocess.DEVNULL, text=True, check=False,
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip()
        except OSError:
            continue
        if answer:
            found.setdefault(answer, python)
    first, *others = found
    return {version: found[version] for version in [first, *sorted(others, key=numbers_of, reverse=True)]}


def numbers_of(version):
    return [int(number) for number in version.split('.')]


def last_error(log):
    """What pip refused, or the exception that ended an import."""
    lines = [line for line in log.read_text().splitlines() if line.strip()] or ['no word why']
    return next((line for line in reversed(lines) if re.match(r'ERROR: |[\w.]*(Error|Exception): ', line)), lines[-1])
