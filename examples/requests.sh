#!/usr/bin/env bash
# The request fields that concern the cache, with curl. Start a server first, for example
#
#   rhizome serve -m MODEL.gguf -c 8192 --port 8080
#
# then run `examples/requests.sh`, or `URL=http://127.0.0.1:8081 examples/requests.sh`.
set -euo pipefail
url=${URL:-http://127.0.0.1:8080}
url=${url%/}
system='You answer letters for a small museum. Be brief and polite, name the room in which a thing is shown, say when
the museum is open (ten to six, not on Mondays), and never promise that a thing can be borrowed or photographed.'

# ask WHAT QUESTION [FIELDS]: sends one chat request and prints how much of its prompt was cached.
ask() {
  local what=$1 question=$2 fields=${3:-} answer cached prompt
  answer=$(curl -sS --fail-with-body "$url/v1/chat/completions" -H 'Content-Type: application/json' -d @- <<JSON
{"messages": [{"role": "system", "content": "${system//$'\n'/ }"}, {"role": "user", "content": "$question"}],
 "max_tokens": 8, "temperature": 0$fields}
JSON
  )
  cached=$(sed -E 's/.*"cached_tokens": ?([0-9]+).*/\1/' <<< "$answer")
  prompt=$(sed -E 's/.*"prompt_tokens": ?([0-9]+).*/\1/' <<< "$answer")
  printf '%-46s %4d of %4d prompt tokens cached\n' "$what" "$cached" "$prompt"
}

ask 'the first time' 'Where is the clock?'
ask 'another question, the same system prompt' 'Where is the map?'
ask 'cache_prompt false: reads and stores nothing' 'Where is the bell?' ', "cache_prompt": false'
ask 'cache_salt "a": a cache of its own' 'Where is the clock?' ', "cache_salt": "a"'
ask 'cache_salt "a" again' 'Where is the map?' ', "cache_salt": "a"'
ask 'cache_salt "b" sees nothing of "a"' 'Where is the map?' ', "cache_salt": "b"'
# Fewer than above when the rows come from the store, which has whole blocks: its slot was used for "b" meanwhile.
ask 'without a salt, as before' 'Where is the coin?'
