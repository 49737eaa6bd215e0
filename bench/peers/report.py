"""What was measured in rounds, the ratios of ours over the peers', and how both are told."""
import json
import os
import pathlib
import platform
import statistics

# Block size -> passes of a peer in a round; the ones with few blocks are over in milliseconds.
PASSES = {16: 1, 512: 5}
SPEED = 'trace_m_block_operations_per_s'
MEASURES = (SPEED, 'lookup_ns', 'store_ns', 'remove_ns', 'bytes_per_block')
# Our two ways: evictions are our own, or we are told of them by name.
OURS = {'prehashed': '', 'named': '_remove_by_hash'}
BOUNDS = {
    'ratio_trace_vs_dynamo_crtc_b16': 20,
    'ratio_trace_vs_dynamo_crtc_b512': 8,
    'ratio_lookup_vs_dynamo_crtc_b16': 2,
    'ratio_trace_remove_by_hash_vs_dynamo_crtc_b16': 5,
}


class Rounds:
    """What was measured: a list for each name, with one value a round."""

    def __init__(self):
        self.values = {}
        self.wrong = 0

    def add(self, name, value):
        self.values.setdefault(name, []).append(value)

    def has(self, name):
        return name in self.values

    def median(self, name):
        return statistics.median(self.values[name])

    def ratio(self, over, under):
        """The median of the rounds' ratios."""
        return statistics.median(a / b for a, b in zip(self.values[over], self.values[under]))


def ratios_of(rounds, peers):
    """Of `peers`, the names before the figures. Who cannot be told by name what is gone is not set beside `named`."""
    ratios = {}
    for block in PASSES:
        for peer in peers:
            suffix = f'vs_{peer}_b{block}'
            removes = rounds.has(f'{peer}_remove_ns_b{block}')
            for ours, word in OURS.items():
                if ours == 'named' and not removes:
                    continue
                ratios[f'ratio_trace{word}_{suffix}'] = rounds.ratio(
                    f'{ours}_{SPEED}_b{block}', f'{peer}_{SPEED}_b{block}')
            ratios[f'ratio_lookup_{suffix}'] = rounds.ratio(
                f'{peer}_lookup_ns_b{block}', f'prehashed_lookup_ns_b{block}')
            if removes:
                ratios[f'ratio_remove_by_hash_{suffix}'] = rounds.ratio(
                    f'{peer}_remove_ns_b{block}', f'named_remove_ns_b{block}')
    return ratios


def print_table(rounds, ratios, peers, not_run):
    for block in PASSES:
        print(f'\nConversation trace, blocks of {block} tokens, hashes given, one core\n')
        print(f'{"":20}{"M ops/s":>10}{"look up":>10}{"store":>10}{"remove":>10}{"memory":>10}'
              f'{"prehashed/it":>15}{"named/it":>10}')
        print(f'{"":30}{"ns/block":>10}{"ns/block":>10}{"ns/block":>10}{"B/block":>10}')
        for name in [*OURS, *peers]:
            cells = [f'{rounds.median(f"{name}_{SPEED}_b{block}"):10.1f}']
            for measure in MEASURES[1:]:
                figure = f'{name}_{measure}_b{block}'
                cells.append(f'{rounds.median(figure):10.1f}' if rounds.has(figure) else f'{"-":>10}')
            for ours, width in (('prehashed', 15), ('named', 10)):
                key = f'ratio_trace{OURS[ours]}_vs_{name}_b{block}'
                cells.append(f'{ratios[key]:{width - 1}.1f}x' if key in ratios else f'{"-":>{width}}')
            print(f'{name:20}{"".join(cells)}')
    print()
    for name, least in BOUNDS.items():
        print(f'{name:50}{ratios[name]:8.2f}  at least {least:<4} {"met" if ratios[name] >= least else "SHORT"}')
    for peer, why in not_run.items():
        print(f'{peer}: not run: {why}')
    print()


def short_of_bound(ratios):
    return [name for name, least in BOUNDS.items() if ratios[name] < least]


def cpu_name():
    lines = pathlib.Path('/proc/cpuinfo').read_text().splitlines()
    return next((line.split(':', 1)[1].strip() for line in lines if line.startswith('model name')), platform.machine())


def json_line(rounds, ratios, not_run, slot, loads):
    figures = {**ratios, **{name: rounds.median(name) for name in rounds.values}, 'wrong_matches': rounds.wrong}
    return json.dumps({
        'bench': 'peers', 'figures': figures, 'rounds': len(loads), 'real_time_slot': bool(slot), 'load': loads,
        'not_run': not_run,
        'machine': {'cpu': cpu_name(), 'cpus': os.cpu_count(), 'system': f'{platform.system()} {platform.release()}'}})
