#!/usr/bin/env python3
"""Agents that share a system prompt, asked one after another through the OpenAI chat API.

Start a server first, for example `rhizome serve -m MODEL.gguf -c 8192 --port 8080`, then run

    python3 examples/agents.py --url http://127.0.0.1:8080

For every answer it prints how many prompt tokens there were, how many of them the server had cached, and the seconds
until the answer was there. Only the first agent's first prompt is computed as a whole. Standard library only.
"""
import argparse
import json
import sys
import time
import urllib.error
import urllib.request

TRADES = ['baker', 'carpenter', 'gardener', 'nurse', 'sailor', 'tailor', 'teacher', 'weaver']
SYSTEM = 'You keep the notes of a small town. ' + ' '.join(
    f'Rule {number}: when somebody asks about matter {number}, look it up on page {number + 100}, answer in one short '
    f'sentence, and say which page it was.' for number in range(1, 21))


def ask(url, messages, tokens):
    """One request; the answer's text and its usage, as the server reports it."""
    body = json.dumps({'messages': messages, 'max_tokens': tokens, 'temperature': 0}).encode()
    where = url.rstrip('/') + '/v1/chat/completions'
    request = urllib.request.Request(where, body, {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=600) as response:
        answer = json.load(response)
    return answer['choices'][0]['message']['content'] or '', answer['usage']


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--url', default='http://127.0.0.1:8080', help='the server (default: %(default)s)')
    parser.add_argument('--agents', type=int, default=4, choices=range(1, len(TRADES) + 1), metavar='N',
                        help='1 to 8 (default: %(default)s)')
    parser.add_argument('--rounds', type=int, default=2, metavar='N', help='questions of each (default: %(default)s)')
    parser.add_argument('--tokens', type=int, default=16, metavar='N',
                        help='generated for each answer (default: %(default)s)')
    options = parser.parse_args()

    trades = TRADES[:options.agents]
    histories = {trade: [{'role': 'system', 'content': SYSTEM}] for trade in trades}
    prompt_total = cached_total = 0
    print('round  agent       prompt  cached  computed  seconds')
    for number in range(1, options.rounds + 1):
        for trade, history in histories.items():
            history.append({'role': 'user', 'content': f'The {trade} asks about matter {number}.'})
            start = time.monotonic()
            text, usage = ask(options.url, history, options.tokens)
            seconds = time.monotonic() - start
            history.append({'role': 'assistant', 'content': text})
            prompt = usage['prompt_tokens']
            cached = usage.get('prompt_tokens_details', {}).get('cached_tokens', 0)
            prompt_total += prompt
            cached_total += cached
            print(f'{number:5}  {trade:10}  {prompt:6}  {cached:6}  {prompt - cached:8}  {seconds:7.2f}')
    print(f'{cached_total} of {prompt_total} prompt tokens were cached ({100 * cached_total / prompt_total:.0f} %)')


if __name__ == '__main__':
    try:
        main()
    except (urllib.error.URLError, TimeoutError) as error:
        sys.exit(f'agents.py: no answer: {error} (is a server there, and has it loaded its model?)')
