# shellcheck shell=bash
# Ends what a demo has started, and finds what is left of it. Sourced by demo.sh.

# mine DIR [PATTERN]: the ids of the demo's own processes, those whose command line matches PATTERN. A
# process is the demo's when it is one of our programs and its command line names the demo's folder:
# an editor or a shell that looks into the folder is nobody's business here.
mine() {
  local id line
  while read -r id line; do
    case $line in *"$1/"*) ;; *) continue ;; esac
    case ${line%% *} in */interlock | */interlock-tui | */llama-server) ;; *) continue ;; esac
    # shellcheck disable=SC2254 # a pattern is what it is
    case $line in ${2:-*}) printf '%s\n' "$id" ;; esac
  done < <(processes)
}

# processes: one line each, id and command line. A minimal Linux has no ps.
processes() {
  local dir words
  if [ ! -d /proc/self ]; then
    ps -axo pid=,command=
    return
  fi
  for dir in /proc/[0-9]*; do
    words=()
    { mapfile -d '' -t words <"$dir/cmdline"; } 2>/dev/null || continue
    printf '%s %s\n' "${dir#/proc/}" "${words[*]:-}"
  done
}

# tell SIGNAL IDS
tell() {
  local id
  for id in $2; do kill "-$1" "$id" 2>/dev/null || :; done
}

# gone_within SECONDS DIR PATTERN: waits until no process is left.
gone_within() {
  local tries=$(($1 * 20))
  while [ -n "$(mine "$2" "$3")" ]; do
    [ $tries -gt 0 ] || return 1
    tries=$((tries - 1))
    sleep 0.05
  done
}

# end DIR PATTERN SECONDS: asks the matching processes to end, waits, and then does not ask any more.
end() {
  tell TERM "$(mine "$1" "$2")"
  gone_within "$3" "$1" "$2" && return 0
  tell KILL "$(mine "$1" "$2")"
  gone_within 5 "$1" "$2"
}

# stop_all DIR: the agent first, which ends its model server and takes leave of the control plane; then
# the control plane; then whatever else there is.
stop_all() {
  end "$1" '*interlock agent run *' 20 || :
  end "$1" '*interlock serve *' 15 || :
  end "$1" '*' 5
}

# stop_kept DIR: what `demo.sh stop DIR` does.
stop_kept() {
  case ${1:-} in
  */interlock-demo-*) ;;
  *)
    echo "demo: give the folder that the demo printed, as in /tmp/interlock-demo-Ab12Cd" >&2
    return 1
    ;;
  esac
  [ -d "$1" ] || { echo "demo: there is no folder $1" >&2; return 1; }
  stop_all "$1" || { echo "demo: these processes do not end: $(mine "$1" | tr '\n' ' ')" >&2; return 1; }
  rm -rf "$1"
  echo "stopped; nothing is left of $1"
}
