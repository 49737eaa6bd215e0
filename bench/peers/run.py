#!/usr/bin/env python3
"""Measures the index beside other projects' prefix indexes, on the same trace, in the same run. See README.md.

Usage: bench/peers/run.py [--rounds N] [--without-sglang] [--json], after a build; `make bench-peers` does both.

Gets the adapters in dynamo/ and sglang/ ready, which fetches the peers' packages the first time (builds.py). Then, in
each round, runs our side (`rhizome bench index prehashed`) and each peer, one after the other. Prints a table, and one
line of JSON at the end (report.py). Where SGLang's packages cannot be had, its rows are missing and the reason is told.
Exit status: 0 done; 1 something was wrong, is missing, or a figure missed its bound.
"""
import argparse
import json
import os
import subprocess
import sys

import builds
import report
from builds import ROOT, Failed, say

TRACE = ROOT / 'bench' / 'traces' / 'conversation.jsonl.zst'
RHIZOME = ROOT / 'build' / 'release' / 'bin' / 'rhizome'

# Adapter -> the indexes that it knows.
ADAPTERS = {'dynamo': ('crtc', 'radix', 'positional'), 'sglang': ('rust', 'python')}


def ready_adapters(options):
    """The adapters' commands, and why one is missing."""
    commands, not_run = {'dynamo': builds.dynamo()}, {}
    if options.without_sglang:
        return commands, {'sglang': '--without-sglang'}
    try:
        commands['sglang'] = builds.sglang()
    except Failed as error:
        not_run['sglang'] = str(error)
        say(f'sglang is not run: {error}')
    return commands, not_run


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


def run_round(rounds, slot, commands, label):
    say(f'{label}: rhizome')
    ours = measured([*slot, RHIZOME, 'bench', 'index', 'prehashed', '--json'])['figures']
    rounds.wrong += ours['wrong_matches']
    for name, value in ours.items():
        if name.startswith(tuple(report.OURS)):
            rounds.add(name, value)
    for block, passes in report.PASSES.items():
        for adapter, command in commands.items():
            for index in ADAPTERS[adapter]:
                say(f'{label}: {adapter} {index}, blocks of {block} tokens')
                line = measured([*slot, *command, TRACE, index, block, passes])
                rounds.wrong += line['wrong']
                for measure in filter(line.__contains__, report.MEASURES):
                    rounds.add(f'{adapter}_{index}_{measure}_b{block}', line[measure])


def measure(options):
    if not RHIZOME.exists():
        raise Failed(f'{RHIZOME.relative_to(ROOT)} is missing: `make bench-peers` builds it')
    (commands, not_run), slot, rounds = ready_adapters(options), real_time_slot(), report.Rounds()
    if not slot:
        say('no real-time slot is allowed here: on a busy machine all speeds come out too low')
    # All on one core, so that a peer which stores in a thread of its own finds in its cache what that thread wrote.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    loads = []
    for number in range(1, options.rounds + 1):
        loads.append(round(os.getloadavg()[0], 2))
        run_round(rounds, slot, commands, f'round {number} of {options.rounds}')
    peers = [f'{adapter}_{index}' for adapter in commands for index in ADAPTERS[adapter]]
    ratios = report.ratios_of(rounds, peers)
    if not options.json:
        report.print_table(rounds, ratios, peers, not_run)
    print(report.json_line(rounds, ratios, not_run, slot, loads), flush=True)
    if rounds.wrong:
        raise Failed(f'{rounds.wrong} look-ups found another number of blocks than they had to')
    if short := report.short_of_bound(ratios):
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
    parser.add_argument('--without-sglang', action='store_true', help='do without its 3 GB of packages')
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
