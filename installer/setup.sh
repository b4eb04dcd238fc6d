#!/bin/sh
# Installs and looks after the worker of "Your hardware": a machine of yours that serves a model to one
# project of an Interlock control plane.
#
#   export INTERLOCK_TASK_WORKER_KEY='<key>'
#   curl -fsSL URL/assets/setup.sh | sh -s -- --url URL
#   unset INTERLOCK_TASK_WORKER_KEY
#
#   sh setup.sh status|doctor|update|rollback|restart|uninstall
#
# It downloads the build of `interlock` for this system from that control plane, checks its size and
# SHA-256, installs it below ~/.interlock/task-worker/app, keeps the key in the file env beside it (yours
# alone) and has the service manager start `interlock hardware run` with the machine. Which model is
# served, the variables LLM_ALIAS, LLM_MODEL, LLM_URL, LLM_API_KEY, LLM_CONTEXT, LLM_SLOTS,
# LLM_ALLOW_REMOTE and LLAMA_SERVER say, here or later in that file. Running it again is harmless and
# needs no key.
#
# Everything stands inside functions, and the last line calls the first of them inside a brace group:
# a download that was cut short anywhere runs nothing.

set -eu
set +a # nothing that is assigned here may reach a child's environment

main() {
  # The key leaves the environment before the first child starts. The name is unset first because a
  # variable that came in exported stays exported when it is assigned.
  unset interlock_key
  interlock_key=${INTERLOCK_TASK_WORKER_KEY-}
  unset INTERLOCK_TASK_WORKER_KEY

  read_options "$@"
  [ -n "${HOME-}" ] || die 'HOME is not set' 'run this as the user who shall own the worker'
  home=$HOME/.interlock/task-worker
  app=$home/app
  program=$app/current/interlock
  case $verb in
    install) install ;;
    update) update ;;
    uninstall) uninstall ;;
    status | doctor | restart | rollback)
      installed
      "$program" hardware "$verb" </dev/null
      ;;
  esac
}

say() { printf '%s\n' "$*" >&2; }

# die WHAT [WAY OUT]
die() {
  say "setup: $1"
  [ $# -lt 2 ] || say "  $2"
  exit 1
}

usage() {
  cat <<'USAGE'
usage: setup.sh [install] --url URL [options]
       setup.sh status|doctor|update|rollback|restart|uninstall

  --no-service             run the worker until the machine restarts, without a boot service
  --name NAME              what this machine is called in the project (its host name)
  --dry-run                say what would be done, and do nothing
  --pin sha256//BASE64     the public key of a server with a certificate of its own making
  --insecure-http          allow http to a host that is not this one

The key comes in the environment variable INTERLOCK_TASK_WORKER_KEY, the first time only.
USAGE
}

read_options() {
  verb='' url='' pin='' name='' insecure_http='' no_service='' dry_run=''
  while [ $# -gt 0 ]; do
    option=$1
    shift
    case $option in
      install | status | doctor | update | rollback | restart | uninstall)
        [ -z "$verb" ] || die "$option comes after $verb" 'one at a time'
        verb=$option
        continue
        ;;
      --no-service) no_service=1; continue ;;
      --dry-run) dry_run=1; continue ;;
      --insecure-http) insecure_http=1; continue ;;
      -h | --help) usage; exit 0 ;;
      --url=* | --name=* | --pin=*)
        value=${option#*=}
        option=${option%%=*}
        ;;
      --url | --name | --pin)
        [ $# -gt 0 ] || die "$option needs a value" 'see --help'
        value=$1
        shift
        ;;
      *) die "unknown option: $option" 'the options are listed by --help' ;;
    esac
    case $option in
      --url) url=$value ;;
      --name) name=$value ;;
      --pin) pin=$value ;;
    esac
  done
  [ -n "$verb" ] || verb=install
}

# installed refuses where there is no program to ask.
installed() {
  [ -x "$program" ] || die "the worker is not installed in $home" 'paste the line that "interlock hardware command" prints'
}

# setting NAME: a value of the file of settings
setting() {
  [ ! -f "$home/env" ] || sed -n "s/^$1=//p" "$home/env" | sed -n '$p'
}

# address takes what was not said from an install before.
address() {
  if [ -z "$url" ]; then
    url=$(setting INTERLOCK_URL)
    [ -n "$pin" ] || pin=$(setting INTERLOCK_PIN)
    [ -n "$insecure_http" ] || [ "$(setting INTERLOCK_INSECURE_HTTP)" != 1 ] || insecure_http=1
  fi
  [ -n "$url" ] || die '--url is missing' "give the control plane's address, e.g. --url https://fleet.example.org"
  check_url
  check_pin
}

check_pin() {
  case $pin in
    '') ;;
    sha256//*[!A-Za-z0-9+/=]* | sha256//) die '--pin is no public key pin' 'it reads sha256// and 44 characters of base64' ;;
    sha256//*) [ "$scheme" = https ] || die '--pin needs an https address' "--url is $url" ;;
    *) die '--pin is no public key pin' 'it reads sha256// and 44 characters of base64' ;;
  esac
}

check_url() {
  while [ "${url%/}" != "$url" ]; do url=${url%/}; done
  case $url in
    https://*) scheme=https ;;
    http://*) scheme=http ;;
    *) die "--url is \"$url\", which is no http or https address" 'e.g. --url https://fleet.example.org' ;;
  esac
  case ${url#*://} in
    '' | *[!A-Za-z0-9:/._~%[\]-]*)
      die "--url is \"$url\", which is no plain address" 'give scheme, host, port and path only: no user, query or fragment' ;;
  esac
  host=${url#*://}
  host=${host%%/*}
  case $host in
    '['*']' | '['*']:'*) host=${host%%]*}] ;;
    '['*) ;;
    *) host=${host%%:*} ;;
  esac
  loopback=''
  case $host in
    localhost | '[::1]') loopback=1 ;;
    *[!0-9.]*) ;;
    127.*) loopback=1 ;;
  esac
  [ "$scheme" = https ] || [ -n "$loopback" ] || [ -n "$insecure_http" ] ||
    die "$url is plain http, and $host is another machine: the key and the program would cross the network unprotected" \
      'use https, or --insecure-http where that network is trusted'
}

find_platform() {
  kernel=$(uname -s)
  machine=$(uname -m)
  case $kernel in
    Linux) os=linux ;;
    Darwin) os=darwin ;;
    *) os='' ;;
  esac
  case $machine in
    x86_64 | amd64) arch=amd64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) arch='' ;;
  esac
  { [ -n "$os" ] && [ -n "$arch" ]; } ||
    die "there is no build for $kernel on $machine" 'builds exist for Linux and macOS (Darwin), on x86_64 and arm64'
  # A shell that runs under Rosetta reports the processor that is being imitated.
  if [ "$os-$arch" = darwin-amd64 ] && [ "$(sysctl -n sysctl.proc_translated 2>/dev/null || echo 0)" = 1 ]; then
    arch=arm64
  fi
  platform=$os-$arch
}

find_tools() {
  command -v curl >/dev/null 2>&1 || die 'curl is missing' 'install it with your package manager'
  if command -v sha256sum >/dev/null 2>&1; then
    digester=sha256sum
  elif command -v shasum >/dev/null 2>&1; then
    digester='shasum -a 256'
  else
    die 'neither sha256sum nor shasum is here' 'install coreutils: a download that cannot be checked is not installed'
  fi
}

# digest FILE
digest() {
  # shellcheck disable=SC2086 # the digester may carry options of its own
  $digester <"$1" | { read -r sum rest && printf '%s' "$sum"; }
}

# size FILE
size() {
  wc -c <"$1" | tr -d '[:space:]'
}

# fetch PATH FILE BYTES: leaves the HTTP status in $status, "cut" for a body that broke off or went on
# beyond BYTES. It does not return when the server could not be asked.
fetch() {
  fetch_url=$url$1
  fetch_file=$2
  fetch_bytes=$3
  set -- -sS -L --proto "=$scheme" --proto-redir "=https${loopback:+,http}" \
    --connect-timeout 20 --speed-limit 1 --speed-time 60 --retry 3
  [ -z "$pin" ] || set -- "$@" -k --pinnedpubkey "$pin"
  [ -z "$loopback" ] || set -- "$@" --noproxy '*' # a proxy elsewhere cannot reach this machine's own server
  # Older versions of curl hold --max-filesize only against a length that the server announces, so the
  # system's own limit stands behind it, a megabyte or two higher, in blocks of 512 bytes: no server
  # fills the disk. The exact size is checked afterwards.
  status=$(
    # shellcheck disable=SC3045 # POSIX does not name -c, every shell has it: no core file of a stopped curl
    ulimit -c 0 2>/dev/null || :
    ulimit -f $((fetch_bytes / 512 + 2048))
    exec curl "$@" --max-filesize "$fetch_bytes" -o "$fetch_file" -w '%{http_code}' -- "$fetch_url" </dev/null
  ) || {
    code=$?
    case $code in
      18 | 63 | 153) status='cut' ;; # broke off, announced too much, went over the limit (SIGXFSZ)
      23) die "$fetch_file could not be written" 'is the disk full?' ;;
      60) die "the certificate of $host is not trusted here" 'for a server with a certificate of its own making, take the line that carries --pin' ;;
      90) die "$fetch_url has another public key than --pin says" 'someone may be in between: take a fresh line from the control plane' ;;
      *) die "$fetch_url could not be fetched (curl exit $code)" 'is the control plane running, and is --url right?' ;;
    esac
  }
}

read_manifest() {
  fetch /model-worker/manifest.json "$tmp/manifest.json" 1048576
  case $status in
    200) ;;
    cut) die "the manifest of $url broke off or has no end" 'run the same line again' ;;
    404) die "$url offers no builds" 'on the control plane: make dist, then interlock serve --assets dist/assets' ;;
    *) die "$url/model-worker/manifest.json answered $status" 'is --url the address of an Interlock control plane?' ;;
  esac

  # No JSON reader is on every machine. Every value that is used here is checked against a set of
  # characters that leaves no room for quotes, blanks or slashes, so taking the text apart is exact.
  manifest=$(tr -d '[:space:]' <"$tmp/manifest.json")
  case $manifest in
    '{'*'"schema":1,'*'}' | '{'*'"schema":1}') ;;
    *) die "the manifest of $url is of a kind this script does not know" 'fetch a fresh script from the same server' ;;
  esac
  version=$(field version "$manifest")
  entry=$(printf '%s\n' "$manifest" | sed -n 's/.*"'"$platform"'":{\([^{}]*\)}.*/\1/p')
  [ -n "$entry" ] || die "$url has no build for $platform" 'on the control plane: make dist, then interlock serve --assets dist/assets; or install by hand'
  plain_name "$version" || die "the manifest of $url names the version \"$version\", which is no plain name"
  take_entry "the manifest of $url" "$entry"
}

# take_entry WHOSE TEXT: reads $file, $sha256 and $bytes
take_entry() {
  file=$(field file "$2")
  sha256=$(field sha256 "$2")
  bytes=$(printf '%s\n' "$2" | sed -n 's/.*"size":\([0-9][0-9]*\).*/\1/p')
  plain_name "$file" || die "$1 names the file \"$file\", which is no plain name"
  case $sha256 in
    *[!0-9a-f]*) sha256='' ;;
  esac
  [ ${#sha256} = 64 ] || die "$1 has no SHA-256 for $platform"
  case $bytes in
    '' | 0* | ???????????*) die "$1 has no believable size for $platform" ;;
  esac
}

# field NAME TEXT: the string value of a field
field() {
  printf '%s\n' "$2" | sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p'
}

# plain_name TEXT: true for a name that stays in its folder
plain_name() {
  case $1 in
    '' | [.-]* | *[!A-Za-z0-9._+-]*) return 1 ;;
  esac
}

# prepare makes a folder for what is fetched; a dry run leaves nothing in the home folder.
prepare() {
  umask 077
  if [ -n "$dry_run" ]; then
    tmp=$(mktemp -d) || die 'the temporary folder is not writable'
  else
    mkdir -p "$app" || die "$app cannot be made" 'is the home folder writable?'
    tmp=$(mktemp -d "$app/.install-XXXXXX") || die "$app is not writable"
  fi
  trap 'rm -rf "$tmp"' EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# kept is true when the programs are the updater's: it alone moves them, and only by signed releases.
kept() {
  { [ -f "$app/trust/first.root.json" ] || [ -f "$app/trust/root.json" ]; } &&
    "$program" --version >/dev/null 2>&1 </dev/null
}

install() {
  address
  find_platform
  find_tools
  prepare
  kept || read_manifest
  if [ -n "$dry_run" ]; then
    plan
    return
  fi
  if kept; then
    say "the program in $app is kept: signed updates keep it current"
  else
    fetch_program
    point current "$version"
  fi
  [ -n "$no_service" ] || "$program" agent service check </dev/null ||
    die 'this machine was not set up' 'interlock is installed; run the same line again when the reason above is gone, or with --no-service'
  set -- --url "$url"
  [ -z "$name" ] || set -- "$@" --name "$name"
  [ -z "$pin" ] || set -- "$@" --pin "$pin"
  [ -z "$insecure_http" ] || set -- "$@" --insecure-http
  # printf is part of the shell, so the key is in nobody's arguments.
  printf '%s\n' "$interlock_key" | "$program" hardware configure "$@" --key-stdin ||
    die 'this machine was not set up' 'interlock is installed; run the same line again when the reason above is gone'
  interlock_key=''
  if [ -n "$no_service" ]; then
    "$program" hardware restart </dev/null ||
      die 'the worker is not ready' "look: $program hardware doctor"
    say "after a restart of the machine: $program hardware start"
  else
    "$program" hardware service install </dev/null ||
      die 'the boot service was not installed' "the worker is set up; try again with: $program hardware service install"
  fi
}

# update brings in a signed release where the control plane has them, else its newest build, and goes back
# when the worker does not get ready with it.
update() {
  installed
  address
  find_platform
  find_tools
  prepare
  fetch /model-worker/tuf/metadata/1.root.json "$tmp/root.json" 1048576
  if [ "$status" = 200 ] || kept; then
    # The last proven version updates: it works also while the current one does not.
    [ ! -x "$app/updater/interlock" ] || program=$app/updater/interlock
    "$program" hardware update </dev/null
    return
  fi
  read_manifest
  before=$(readlink "$app/current") || die "$app/current is no link"
  plain_name "$before" || die "$app/current is no link to a version"
  if [ "$before" = "$version" ] && [ "$(digest "$program")" = "$sha256" ]; then
    say "interlock $version is the newest that $url has"
    return
  fi
  fetch_program
  "$app/$version/interlock" --version >/dev/null 2>&1 </dev/null || die "interlock $version does not run on this machine" 'nothing was changed'
  point previous "$before"
  point current "$version"
  say "interlock $before makes way for $version"
  "$program" hardware restart </dev/null && return
  say "setup: the worker is not ready with $version: back to $before"
  point current "$before"
  "$program" hardware restart </dev/null || die "the worker is not ready with $before either" "look: $program hardware doctor"
  exit 1
}

fetch_program() {
  target=$app/$version/interlock
  if [ -f "$target" ] && [ "$(digest "$target")" = "$sha256" ]; then
    say "interlock $version is already installed"
    return
  fi
  say "downloading interlock $version for $platform ($bytes bytes)"
  fetch "/assets/$file" "$tmp/interlock" "$bytes"
  case $status in
    200 | cut) ;;
    404) die "$url has no build for $platform" 'on the control plane: make dist, then interlock serve --assets dist/assets; or install by hand' ;;
    *) die "$url/assets/$file answered $status" 'run the same line again' ;;
  esac
  [ -f "$tmp/interlock" ] || : >"$tmp/interlock" # curl leaves no file when the first byte was too many
  have=$(size "$tmp/interlock")
  { [ "$status" = 200 ] && [ "$have" = "$bytes" ]; } ||
    die "the download of $file has $have bytes, the manifest says $bytes" 'run the same line again; nothing was installed'
  have=$(digest "$tmp/interlock")
  [ "$have" = "$sha256" ] ||
    die "the download of $file has the SHA-256 $have, the manifest says $sha256" 'nothing was installed; tell whoever runs the control plane'
  chmod 755 "$tmp/interlock"
  sync "$tmp/interlock" 2>/dev/null || sync # the bytes before the name
  mkdir -p "$app/$version"
  chmod 755 "$app" "$app/$version"
  mv -f "$tmp/interlock" "$target"
}

# point LINK VERSION: swaps a link by one rename
point() {
  link=$app/$1
  [ ! -e "$link" ] || [ -L "$link" ] || die "$link is no link" 'move it away'
  [ "$(readlink "$link" 2>/dev/null)" != "$2" ] || return 0
  ln -s "$2" "$tmp/$1"
  # A plain mv would move the new link into the folder that the old one points to.
  mv -fT "$tmp/$1" "$link" 2>/dev/null ||
    mv -fh "$tmp/$1" "$link" 2>/dev/null ||
    ln -sfn "$2" "$link"
}

plan() {
  me=$(id -un 2>/dev/null || echo you)
  would() { say "$(printf '  %-10s %s' "$1" "$2")"; }
  say 'this line would:'
  if kept; then
    would "$me" "keep the program in $app, which signed updates keep current"
  else
    would "$me" "download $url/assets/$file ($bytes bytes, SHA-256 $sha256)"
    would "$me" "write $app/$version/interlock, and the link $app/current"
  fi
  would "$me" "write $home/env, readable by you alone"
  if [ -n "$no_service" ]; then
    would "$me" 'start the worker, until the machine restarts'
  elif [ "$os" = darwin ]; then
    would root "write /Library/LaunchDaemons/sh.interlock.task-worker.plist, run as $me"
    would root 'run launchctl bootstrap'
  else
    would root "write /etc/systemd/system/sh.interlock.task-worker.service, run as $me"
    would root 'run systemctl daemon-reload and systemctl enable --now'
  fi
  say 'nothing was changed'
}

# uninstall removes the service and the program. The key, the logs and the models are the owner's.
uninstall() {
  if [ ! -d "$app" ] && [ ! -d "$home/run" ]; then
    say "nothing is installed in $home"
    return
  fi
  say "to be removed: the service sh.interlock.task-worker, $app, $home/run"
  say "to be kept: $home/env, $home/logs, $home/models"
  if [ -x "$program" ]; then
    "$program" hardware service uninstall </dev/null ||
      die 'the service was not removed' 'nothing was removed; run this again when the reason above is gone'
    "$program" hardware stop </dev/null || die 'the worker does not end' 'its service is removed; run this again'
  elif [ -e /etc/systemd/system/sh.interlock.task-worker.service ] || [ -e /Library/LaunchDaemons/sh.interlock.task-worker.plist ]; then
    die "$program is missing, so the service cannot be removed" 'paste the install line again, then run this again; nothing was removed'
  fi
  rm -rf "$app" "$home/run"
  say 'removed; what is left:'
  for left in "$home"/*; do
    [ ! -e "$left" ] || say "  $left"
  done
}

{ main "$@"; }
