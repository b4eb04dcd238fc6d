#!/usr/bin/env bash
# The main job on real parts, from an empty machine to an answer: a control plane, a model uploaded to
# it, this machine enrolled by the pasted line, a durable run, the OpenAI-compatible endpoint, the
# dashboard. Everything it starts has a private home folder and is gone when it ends.
#
#   make demo              all of it; leaves nothing but the caches of downloads and builds
#   make demo KEEP=1       leaves it running and says how to look at it
#   packaging/dev/demo.sh stop DIR    ends one that was left running
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
# Words are measured in characters, and times have a point.
if [ "$(uname -s)" = Darwin ]; then export LC_ALL=en_US.UTF-8; else export LC_ALL=C.UTF-8; fi
# The same flags as the Makefile: others would compile everything once more.
export CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false'

# shellcheck source=packaging/dev/demo-ui.sh
. "$here/demo-ui.sh"
# shellcheck source=packaging/dev/demo-stop.sh
. "$here/demo-stop.sh"

if [ "${1:-}" = stop ]; then
  kept=${2:-}
  stop_kept "${kept%/}" # as in the command lines of what runs there
  exit
fi

alias=smollm2
prompt='Describe a calm sea in two sentences.'
max_tokens=64
ready_within=120 # seconds

work=$(mktemp -d "${TMPDIR:-/tmp}/interlock-demo-XXXXXX")
work=$(cd "$work" && pwd -P)
step_log=$work/step.log
server=''

# leave runs at the end, whatever the end is.
leave() {
  local code=$? IFS=$' \t\n' # a signal may have come while read had its own
  trap '' INT TERM HUP
  trap - EXIT
  set +e
  if [ -n "$child" ]; then
    kill -INT -- "-$child" 2>/dev/null
    wait "$child" 2>/dev/null
  fi
  if [ $code -eq 130 ] || [ $code -eq 143 ]; then
    end_line
    clear_line
    echo 'interrupted: stopping what was started'
  elif [ $code -ne 0 ]; then
    end_line
    [ -z "$step_name" ] || not_ok
    show_logs
  fi
  if ! stop_all "$work"; then
    echo "these processes do not end: $(mine "$work" | tr '\n' ' ')" >&2
    code=1
  fi
  cd / && rm -rf "$work"
  exit $code
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

show_logs() {
  tail_of "$work/serve.log" 15 'control plane'
  local log
  for log in "$work"/.nightshift/groups/*/roles/*/logs/*.log; do
    tail_of "$log" 15 "${log##*/}"
  done
}

# inside COMMAND…: in the demo's own home, away from the caller's login and settings.
inside() {
  env -u INTERLOCK_URL -u INTERLOCK_PROFILE -u INTERLOCK_SDK_KEY -u INTERLOCK_MODEL_KEY -u NIGHTSHIFT_HOME \
    HOME="$work" PATH="$root/bin:$work/tools:$PATH" NO_PROXY='127.0.0.1,localhost' no_proxy='127.0.0.1,localhost' "$@"
}

interlock() { inside interlock "$@"; }

# --- what it needs -----------------------------------------------------------------------------------

printf '%sInterlock: from an empty machine to an answer%s\n\n' "$bold" "$plain"
began=$(now)

step tools 'the first time installs what is missing …'
quietly "$here/setup.sh" demo
ok 'all there'

step llama-server 'the first time downloads 68 MB and tries it …'
answer_of "$here/llama-server.sh"
mkdir "$work/tools"
ln -s "$VALUE" "$work/tools/llama-server"
ok "$("$VALUE" --version 2>&1 | sed -n 's/^version: *//p')"

step model 'the first time downloads 93 MB …'
answer_of "$here/model.sh"
model=$VALUE
ok "${model##*/}"

step 'OpenAI client' 'the first time installs it …'
answer_of "$here/openai-client.sh"
openai=$VALUE
ok 'openai for Python, unmodified'

cd "$root"
step build 'the first time takes a minute or two …'
quietly "${MAKE:-make}" --no-print-directory build
version=$(bin/interlock version | awk 'NR == 1 { print $2 }')
mkdir "$work/assets"
cp bin/interlock "$work/assets/interlock-$(go env GOOS)-$(go env GOARCH)"
quietly go run ./installer/mkmanifest "$work/assets" "$version"
ok "interlock $version"
cd "$work"

# --- the control plane -------------------------------------------------------------------------------

serve() {
  exec nohup env HOME="$work" "$root/bin/interlock" serve --listen 127.0.0.1:0 \
    --data "$work/data" --assets "$work/assets" >"$work/serve.out" 2>"$work/serve.log" </dev/null
}

step serve
background serve
server=$child
child=''
for ((tries = 200; tries > 0; tries--)); do
  url=$(sed -n 's/^listening on //p' "$work/serve.out" 2>/dev/null || :)
  [ -z "$url" ] || break
  kill -0 "$server" 2>/dev/null || die 'the control plane ended'
  sleep 0.05
done
[ -n "$url" ] || die 'the control plane does not say that it listens'
ok "$url, SQLite in an empty folder"

step login
sed -n 's/^owner token: //p' "$work/serve.out" >"$work/token"
login() { interlock login --api "$url" --name owner <"$work/token"; }
quietly login
rm "$work/token"
quietly interlock projects new demo
ok 'with the owner token; project demo'

# --- the model ---------------------------------------------------------------------------------------

step group
answer_of interlock models register --dir "$work/smol"
lines=$VALUE
group=$(jq -r .modelId "$work/smol/interlock-model.json")
ok "$group"

step release
quietly interlock models release create q4_1 --dir "$work/smol" --file "$model" --license Apache-2.0 --context 2048 --slots 1
ok "q4_1, $(($(wc -c <"$model") / 1000000)) MB uploaded"

step deploy
quietly interlock models deploy q4_1 --dir "$work/smol" --alias "$alias"
ok "$alias"

# --- this machine ------------------------------------------------------------------------------------

# The line as the control plane printed it, from the comment over it to the end of its block. Only
# --no-service is added: a demo leaves no boot service behind.
line_of_client() {
  printf '%s\n' "$lines" | sed -n '/^# .*(client)/,/^unset /p' | sed '/^  --url /s/$/ --no-service/'
}

step enroll
printf '%s\n' 'the pasted line:' "$(line_of_client)" >>"$step_log"
quietly inside sh -c "$(line_of_client)"
ok 'this machine, by the pasted line:'
line_of_client | sed -e '/^#/d' -e "s/\(KEY='[^_]*_....\)[^']*/\1…/" -e "s/^/    $dim/" -e "s/\$/$plain/"

step ready 'the agent downloads, checks, starts and probes the model …'
for ((tries = ready_within * 5; ; tries--)); do
  answer_of interlock models machine list --json
  read -r state machine detail < <(jq -r '.machines[0] | "\(.state.kind) \(.name | gsub(" "; "_")) \(.state.detail // "")"' <<<"$VALUE")
  case $state in
  ready) break ;;
  blocked | parked | unsupported) die "$machine is $state: $detail" ;;
  esac
  [ "$tries" -gt 0 ] || die "$machine is still $state after $ready_within s"
  sleep 0.2
done
ok "$machine serves $alias"

# --- the answers -------------------------------------------------------------------------------------

printf '\n  %s%s%s\n' "$bold" "$prompt" "$plain"
step ask
clear_line
streaming interlock ask "$prompt" --model "$alias" --max-tokens "$max_tokens"
answered=$(sed -n 's/^interlock: //p' <<<"$NOTES" | tail -n 1)
ok "a durable run; first word after $FIRST s"
printf '  %s%s%s\n' "$dim" "$answered" "$plain"

step 'OpenAI key'
answer_of interlock keys new 'OpenAI client' --kind sdk
key=$VALUE
ok 'of kind sdk'

ask_openai() {
  inside env PYTHONPATH="$openai" OPENAI_BASE_URL="$url/v1" OPENAI_API_KEY="$key" \
    python3 "$here/openai-demo.py" "$alias" "$prompt" "$max_tokens"
}
printf '\n  %sThe same question, by the OpenAI client at %s/v1%s\n' "$bold" "$url" "$plain"
step OpenAI
clear_line
streaming ask_openai
ok 'the same through /v1, by an unmodified client'
printf '  %s%s%s\n\n' "$dim" "$NOTES" "$plain"

# --- the dashboard -----------------------------------------------------------------------------------

step dashboard
# That the answer has ended, and how fast it was, comes with the next heartbeat.
for ((tries = 100; ; tries--)); do
  answer_of interlock models machine list --json
  speed=$(jq -r '.machines[0].deployments[0] | select(.state.kind == "ready") | .tokensPerSecond // empty | . * 10 | round / 10' <<<"$VALUE")
  [ -z "$speed" ] || break
  [ "$tries" -gt 0 ] || die "$machine does not report that it is idle, and its speed"
  sleep 0.1
done
answer_of inside env NO_COLOR=1 interlock-tui --frame 120x40
printf '%s\n' "$VALUE" >>"$step_log"
for part in "${machine:0:8}" "$alias" "${speed%.*}" succeeded; do
  [[ $VALUE == *"$part"* ]] || die "the frame does not show \"$part\""
done
ok "$machine, $alias, $speed tokens/s, the finished tasks"
if [ -n "$bold" ]; then inside interlock-tui --frame 120x40; else printf '%s\n' "$VALUE"; fi

# --- the end -----------------------------------------------------------------------------------------

if [ -n "${KEEP:-}" ] && [ "$KEEP" != 0 ]; then
  rm -f "$work/value" "$work/notes"
  trap - EXIT
  cat <<TEXT

${bold}It keeps running.${plain}
  dashboard   HOME=$work $root/bin/interlock-tui --api $url
  ask         HOME=$work $root/bin/interlock ask "Tell me a story." --model $alias --max-tokens 200
  machine     HOME=$work $root/bin/interlock agent status
  logs        tail -f $work/serve.log
  stop        $here/demo.sh stop $work
TEXT
  exit
fi

printf '\n'
step 'stop agent'
quietly interlock agent stop
[ -z "$(mine "$work" '*interlock agent*')$(mine "$work" '*llama-server*')" ] || die 'the agent or its model server is still there'
ok 'and its model server with it'

step 'stop server'
kill -TERM "$server"
child=$server
settled || die "the control plane ended with exit code $?"
ok 'in good order'

step 'nothing left'
left=$(mine "$work")
[ -z "$left" ] || die "still running: $left"
cd /
rm -rf "$work"
step_log=/dev/null
ok 'no process, no file but the caches'
line ' ' 'all of it' '' $(($(now) - began))
trap - EXIT
