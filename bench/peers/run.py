#!/usr/bin/env python3
"""Measures the index beside other projects' prefix indexes, on the same trace, in the same run. See README.md.

Usage: bench/peers/run.py [--rounds N] [--json], after a build; `make bench-peers` does both.

Builds the adapter in dynamo/ with cargo, which fetches the peer's crate and what it needs the first time. Then, in each
round, runs our side (`rhizome bench index prehashed`) and each peer, one after the other. Prints a table, and one line
of JSON at the end. Exit status: 0 done; 1 something was wrong, is missing, or a figure missed its bound.
"""
import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADAPTER = ROOT / 'bench' / 'peers' / 'dynamo'
BUILT = ROOT / 'build' / 'peers'
TRACE = ROOT / 'bench' / 'traces' / 'conversation.jsonl.zst'
RHIZOME = ROOT / 'build' / 'release' / 'bin' / 'rhizome'

DYNAMO = ('crtc', 'radix', 'positional')
# Block size -> passes of a peer in a round; the ones with few blocks are over in milliseconds.
PASSES = {16: 1, 512: 5}
SPEED = 'trace_m_block_operations_per_s'
# Our two ways: evictions are our own, or we are told of them by name.
OURS = {'prehashed': '', 'named': '_remove_by_hash'}
BOUNDS = {
    'ratio_trace_vs_dynamo_crtc_b16': 20,
    'ratio_trace_vs_dynamo_crtc_b512': 8,
    'ratio_lookup_vs_dynamo_crtc_b16': 2,
    'ratio_trace_remove_by_hash_vs_dynamo_crtc_b16': 5,
}
NOT_RUN = {'sglang': 'there is no adapter for it yet'}


class Failed(Exception):
    """Its text is for whoever called."""


def say(what):
    print(f'bench-peers: {what}', file=sys.stderr, flush=True)


def build():
    if shutil.which('cargo') is None:
        raise Failed('cargo is missing: install Rust 1.85 or newer, with cargo in PATH')
    BUILT.mkdir(parents=True, exist_ok=True)
    log = BUILT / 'cargo.log'
    say(f'building the adapter for Dynamo (some minutes the first time; {log.relative_to(ROOT)})')
    with log.open('w') as out:
        done = subprocess.run(['cargo', 'build', '--release', '--target-dir', BUILT / 'dynamo'], cwd=ADAPTER,
                              stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        tail = log.read_text().splitlines()[-15:]
        raise Failed('\n'.join(['cargo could not build the adapter for Dynamo:', *tail]))
    return BUILT / 'dynamo' / 'release' / 'dynamo_peer'


def real_time_slot():
    """What to put before a command so that nothing else takes its processor; empty where that is not allowed."""
    slot = ['chrt', '--fifo', '20']
    try:
        allowed = subprocess.run([*slot, 'true'], stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    return slot if allowed else []


def measured(command):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0 or not done.stdout.strip():
        raise Failed(f'{" ".join(map(str, command))}: status {done.returncode}\n{done.stderr.strip()}')
    return json.loads(done.stdout)


class Rounds:
    """What was measured: a list for each name, with one value a round."""

    def __init__(self):
        self.values = {}
        self.wrong = 0

    def add(self, name, value):
        self.values.setdefault(name, []).append(value)

    def median(self, name):
        return statistics.median(self.values[name])

    def ratio(self, over, under):
        """The median of the rounds' ratios."""
        return statistics.median(a / b for a, b in zip(self.values[over], self.values[under]))


def run_round(rounds, slot, adapter, label):
    say(f'{label}: rhizome')
    ours = measured([*slot, RHIZOME, 'bench', 'index', 'prehashed', '--json'])['figures']
    rounds.wrong += ours['wrong_matches']
    for name, value in ours.items():
        if name.startswith(tuple(OURS)):
            rounds.add(name, value)
    for block, passes in PASSES.items():
        for peer in DYNAMO:
            say(f'{label}: dynamo {peer}, blocks of {block} tokens')
            line = measured([*slot, adapter, TRACE, peer, block, passes])
            rounds.wrong += line['wrong']
            for measure in (SPEED, 'lookup_ns', 'store_ns', 'remove_ns', 'bytes_per_block'):
                rounds.add(f'dynamo_{peer}_{measure}_b{block}', line[measure])


def ratios_of(rounds):
    ratios = {}
    for block in PASSES:
        for peer in DYNAMO:
            suffix = f'vs_dynamo_{peer}_b{block}'
            for ours, word in OURS.items():
                ratios[f'ratio_trace{word}_{suffix}'] = rounds.ratio(
                    f'{ours}_{SPEED}_b{block}', f'dynamo_{peer}_{SPEED}_b{block}')
            ratios[f'ratio_lookup_{suffix}'] = rounds.ratio(
                f'dynamo_{peer}_lookup_ns_b{block}', f'prehashed_lookup_ns_b{block}')
            ratios[f'ratio_remove_by_hash_{suffix}'] = rounds.ratio(
                f'dynamo_{peer}_remove_ns_b{block}', f'named_remove_ns_b{block}')
    return ratios


def print_table(rounds, ratios):
    contestants = [*OURS, *(f'dynamo_{peer}' for peer in DYNAMO)]
    for block in PASSES:
        print(f'\nConversation trace, blocks of {block} tokens, hashes given, one core\n')
        print(f'{"":20}{"M ops/s":>10}{"look up":>10}{"store":>10}{"remove":>10}{"memory":>10}'
              f'{"prehashed/it":>15}{"named/it":>10}')
        print(f'{"":30}{"ns/block":>10}{"ns/block":>10}{"ns/block":>10}{"B/block":>10}')
        for name in contestants:
            cells = [f'{rounds.median(f"{name}_{SPEED}_b{block}"):10.1f}']
            for measure in ('lookup_ns', 'store_ns', 'remove_ns', 'bytes_per_block'):
                figure = f'{name}_{measure}_b{block}'
                cells.append(f'{rounds.median(figure):10.1f}' if figure in rounds.values else f'{"-":>10}')
            for ours, width in (('prehashed', 15), ('named', 10)):
                key = f'ratio_trace{OURS[ours]}_vs_{name}_b{block}'
                cells.append(f'{ratios[key]:{width - 1}.1f}x' if key in ratios else f'{"-":>{width}}')
            print(f'{name:20}{"".join(cells)}')
    print()
    for name, least in BOUNDS.items():
        print(f'{name:50}{ratios[name]:8.2f}  at least {least:<4} {"met" if ratios[name] >= least else "SHORT"}')
    for peer, why in NOT_RUN.items():
        print(f'{peer}: not run: {why}')
    print()


def cpu_name():
    lines = pathlib.Path('/proc/cpuinfo').read_text().splitlines()
    return next((line.split(':', 1)[1].strip() for line in lines if line.startswith('model name')), platform.machine())


def json_line(rounds, ratios, slot, loads):
    figures = {**ratios, **{name: rounds.median(name) for name in rounds.values}, 'wrong_matches': rounds.wrong}
    return json.dumps({
        'bench': 'peers', 'figures': figures, 'rounds': len(next(iter(rounds.values.values()))),
        'real_time_slot': bool(slot), 'load': loads, 'not_run': NOT_RUN,
        'machine': {'cpu': cpu_name(), 'cpus': os.cpu_count(), 'system': f'{platform.system()} {platform.release()}'}})


def measure(options):
    if not RHIZOME.exists():
        raise Failed(f'{RHIZOME.relative_to(ROOT)} is missing: `make bench-peers` builds it')
    adapter, slot, rounds = build(), real_time_slot(), Rounds()
    if not slot:
        say('no real-time slot is allowed here: on a busy machine all speeds come out too low')
    # All on one core, so that a peer which stores in a thread of its own finds in its cache what that thread wrote.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    loads = []
    for number in range(1, options.rounds + 1):
        loads.append(round(os.getloadavg()[0], 2))
        run_round(rounds, slot, adapter, f'round {number} of {options.rounds}')
    ratios = ratios_of(rounds)
    if not options.json:
        print_table(rounds, ratios)
    print(json_line(rounds, ratios, slot, loads), flush=True)
    if rounds.wrong:
        raise Failed(f'{rounds.wrong} look-ups found another number of blocks than they had to')
    short = [name for name, least in BOUNDS.items() if ratios[name] < least]
    if short:
        raise Failed(f'short of the bound: {", ".join(short)}')


def positive(text):
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def main():
    parser = argparse.ArgumentParser(
        prog='bench/peers/run.py', description='Measures the index beside other projects\' prefix indexes.')
    parser.add_argument('--rounds', type=positive, default=3, metavar='N', help='interleaved rounds; medians (3)')
    parser.add_argument('--json', action='store_true', help='only the line of JSON')
    try:
        measure(parser.parse_args())
    except Failed as error:
        say(error)
        sys.exit(1)
    except KeyboardInterrupt:
        say('interrupted')
        sys.exit(1)


if __name__ == '__main__':
    main()
