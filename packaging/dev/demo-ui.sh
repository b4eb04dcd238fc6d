# shellcheck shell=bash
# What the demo prints: one line a step with its time, an answer as it streams, the tails of logs when
# something failed. Sourced by demo.sh; it knows nothing about what the steps do. It is given work, the
# demo's folder, and step_log, and gives back VALUE, FIRST and NOTES.
# shellcheck disable=SC2034,SC2154

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
  bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
else
  bold='' dim='' green='' red='' plain=''
fi

step_name=''  # the step that runs; empty between two
step_began=0
child=''      # the process group of the command that runs
column=0      # where an answer that streams has come to on its line

# now: microseconds.
now() {
  if [ -n "${EPOCHREALTIME:-}" ]; then
    printf '%s' "${EPOCHREALTIME//[!0-9]/}"
  else
    printf '%s' $((SECONDS * 1000000)) # bash 3, as macOS has it
  fi
}

# seconds MICROSECONDS: with one digit behind the point.
seconds() { printf '%d.%d' $((($1 + 50000) / 1000000)) $((($1 + 50000) / 100000 % 10)); }

# line MARK NAME DETAIL MICROSECONDS: padded by hand, because printf counts bytes.
line() {
  local took pad
  took=$(seconds "$4")
  pad=$((78 - 2 - 16 - ${#3} - ${#took} - 2))
  printf '%s %s%-15s%s %s%s%s%*s%s s\n' "$1" "$bold" "$2" "$plain" "$dim" "$3" "$plain" \
    $((pad > 1 ? pad : 1)) '' "$took"
}

# step NAME [WHAT]: a step begins. A terminal shows it at once.
step() {
  step_name=$1
  step_began=$(now)
  : >"$step_log"
  [ ! -t 1 ] || printf '  %s%-15s %s%s' "$dim" "$1" "${2:-…}" "$plain"
}

# clear_line takes back what step showed.
clear_line() { [ ! -t 1 ] || printf '\r\e[K'; }

# ok [DETAIL]: the step has ended well.
ok() {
  clear_line
  line "$green✓$plain" "$step_name" "${1:-}" $(($(now) - step_began))
  step_name=''
}

# not_ok: the step has failed; what its commands said follows.
not_ok() {
  clear_line
  line "$red✗$plain" "$step_name" failed $(($(now) - step_began))
  tail_of "$step_log" 25 ''
  step_name=''
}

# die TEXT: ends the demo; the step's log is shown with the reason last.
die() {
  printf '%s\n' "$*" >>"$step_log"
  exit 1
}

# tail_of FILE LINES [TITLE]
tail_of() {
  local text
  [ -s "$1" ] || return 0
  [ -z "${3-}" ] || printf '\n  %s%s%s\n' "$dim" "$3" "$plain"
  while IFS= read -r text; do printf '    %s\n' "$text"; done < <(tail -n "$2" "$1")
}

# background COMMAND…: in a process group of its own, so that Ctrl-C comes to the demo alone and the demo
# decides in which order things end.
background() {
  set -m
  "$@" &
  child=$!
  set +m
}

# settled: waits for the command that runs. A signal to the demo is heard meanwhile.
settled() {
  local code=0
  wait "$child" || code=$?
  child=''
  return $code
}

# quietly COMMAND…: its output is shown only when the step fails.
quietly() {
  background "$@" >>"$step_log" 2>&1 </dev/null
  settled
}

# answer_of COMMAND…: its standard output in VALUE, the rest as quietly does.
answer_of() {
  background "$@" >"$work/value" 2>>"$step_log" </dev/null
  settled
  VALUE=$(<"$work/value")
}

# streaming COMMAND…: shows its output as it comes, set off by a bar and wrapped between words. How long
# the first of it took is in FIRST; what it said on standard error is in NOTES.
streaming() {
  local began word='' c
  began=$(now)
  FIRST=''
  rm -f "$work/stream"
  mkfifo "$work/stream"
  : >"$work/notes"
  background into_stream "$@"
  while IFS= read -r -d '' -n 1 c; do
    [ -n "$FIRST" ] || FIRST=$(seconds $(($(now) - began)))
    case $c in
    ' ' | $'\n')
      flush_word
      [ "$c" = ' ' ] || end_line
      ;;
    $'\e' | $'\r') ;; # a model must not steer the terminal
    *) word+=$c ;;
    esac
  done <"$work/stream"
  flush_word
  end_line
  rm -f "$work/stream"
  settled || { cat "$work/notes" >>"$step_log"; return 1; }
  NOTES=$(<"$work/notes")
}

# into_stream COMMAND…: only the background may open the pipe for writing, which waits for a reader.
into_stream() { "$@" >"$work/stream" 2>"$work/notes" </dev/null; }

# flush_word prints the word that streaming has collected.
flush_word() {
  [ -n "$word" ] || return 0
  if [ "$column" -gt 0 ] && [ $((column + 1 + ${#word})) -gt 72 ]; then
    end_line
  fi
  if [ "$column" = 0 ]; then printf '  %s│%s ' "$green" "$plain"; else printf ' '; fi
  printf '%s' "$word"
  column=$((column + 1 + ${#word}))
  word=''
}

end_line() {
  [ "$column" = 0 ] || printf '\n'
  column=0
}
