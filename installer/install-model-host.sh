#!/bin/sh
# Enrolls this machine into a model group of an Interlock control plane:
#
#   export INTERLOCK_MODEL_KEY='<key>'
#   curl -fsSL URL/assets/install-model-host.sh | sh -s -- --url URL --group GROUP --role client
#   unset INTERLOCK_MODEL_KEY
#
# It downloads the build of `interlock` for this system from that control plane, checks its size and
# SHA-256, installs it below ~/.nightshift/app and runs `interlock agent enroll` and `agent start`.
# Running it again with the same options is harmless and needs no key.
#
# Everything stands inside functions, and the last line calls the first of them inside a brace group:
# a download that was cut short anywhere runs nothing.

set -eu
set +a # nothing that is assigned here may reach a child's environment

main() {
  # The key leaves the environment before the first child starts. The name is unset first because a
  # variable that came in exported stays exported when it is assigned.
  unset interlock_key
  interlock_key=${INTERLOCK_MODEL_KEY-}
  unset INTERLOCK_MODEL_KEY

  read_options "$@"
  check_options
  find_platform
  find_tools
  read_manifest
  install_program
  enroll
  start_agent
}

say() { printf '%s\n' "$*" >&2; }

# die WHAT [WAY OUT]
die() {
  say "install-model-host: $1"
  [ $# -lt 2 ] || say "  $2"
  exit 1
}

usage() {
  cat <<'USAGE'
usage: install-model-host.sh --url URL --group GROUP --role client|trainer [options]

  --runtime llama.cpp|mlx-lm   what serves the models of this host (client; default llama.cpp)
  --no-service                 do not install a boot service
  --no-ui                      do not install the menu-bar app
  --pin sha256//BASE64         the public key of a server with a certificate of its own making
  --insecure-http              allow http to a host that is not this one
  --client-key K               the key as an option: others can read it in the process list;
  --trainer-key K              prefer the environment variable INTERLOCK_MODEL_KEY

The key is needed the first time only.
USAGE
}

read_options() {
  url='' group='' role='' runtime='' pin='' key_role=''
  insecure_http='' no_service='' deriver=''
  while [ $# -gt 0 ]; do
    option=$1
    shift
    case $option in
      --no-service) no_service=1; continue ;;
      --no-ui) continue ;; # no version installs the app yet, so there is nothing to leave out
      --insecure-http) insecure_http=1; continue ;;
      --enable-mlx-gguf-deriver) deriver=1; continue ;;
      -h | --help) usage; exit 0 ;;
      --url=* | --group=* | --role=* | --runtime=* | --pin=* | --client-key=* | --trainer-key=*)
        value=${option#*=}
        option=${option%%=*}
        ;;
      --url | --group | --role | --runtime | --pin | --client-key | --trainer-key)
        [ $# -gt 0 ] || die "$option needs a value" 'see --help'
        value=$1
        shift
        ;;
      *) die "unknown option: $option" 'the options are listed by --help' ;;
    esac
    case $option in
      --url) url=$value ;;
      --group) group=$value ;;
      --role) role=$value ;;
      --runtime) runtime=$value ;;
      --pin) pin=$value ;;
      --client-key | --trainer-key)
        say "warning: $option puts the key into the shell's history and the process list; prefer INTERLOCK_MODEL_KEY"
        interlock_key=$value
        key_role=${option#--}
        key_role=${key_role%-key}
        ;;
    esac
  done
}

check_options() {
  [ -n "$url" ] || die '--url is missing' "give the control plane's address, e.g. --url https://fleet.example.org"
  [ -n "$group" ] || die '--group is missing' 'give the name or id of the model group, as interlock models register printed it'
  case $role in
    client | trainer) ;;
    '') die '--role is missing' 'give --role client for a host that runs models, --role trainer for one that trains them' ;;
    *) die "--role is \"$role\", which is no role" 'the roles are client and trainer' ;;
  esac
  [ -z "$key_role" ] || [ "$key_role" = "$role" ] ||
    die "--$key_role-key does not fit --role $role" "give --$role-key, or --role $key_role"
  case $runtime in
    '' | llama.cpp | mlx-lm) ;;
    *) die "--runtime is \"$runtime\", which is no runtime" 'the runtimes are llama.cpp and mlx-lm' ;;
  esac
  if [ -n "$deriver" ]; then
    { [ "$role" = trainer ] && [ "$(uname -s)" = Darwin ]; } ||
      die '--enable-mlx-gguf-deriver works on a macOS trainer only' 'leave it out on this machine'
    die '--enable-mlx-gguf-deriver is not available in this version' 'enroll without it; running this line again later adds it'
  fi
  check_url
  case $pin in
    '') ;;
    sha256//*[!A-Za-z0-9+/=]* | sha256//) die '--pin is no public key pin' 'it reads sha256// and 44 characters of base64' ;;
    sha256//*) [ "$scheme" = https ] || die '--pin needs an https address' "--url is $url" ;;
    *) die '--pin is no public key pin' 'it reads sha256// and 44 characters of base64' ;;
  esac
  [ -n "${HOME-}" ] || die 'HOME is not set' 'run this as the user who shall own the agent'
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
  umask 077
  app=$HOME/.nightshift/app
  mkdir -p "$app" || die "$app cannot be made" 'is the home folder writable?'
  tmp=$(mktemp -d "$app/.install-XXXXXX") || die "$app is not writable"
  trap 'rm -rf "$tmp"' EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM

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
  file=$(field file "$entry")
  sha256=$(field sha256 "$entry")
  bytes=$(printf '%s\n' "$entry" | sed -n 's/.*"size":\([0-9][0-9]*\).*/\1/p')

  plain_name "$version" || die "the manifest of $url names the version \"$version\", which is no plain name"
  plain_name "$file" || die "the manifest of $url names the file \"$file\", which is no plain name"
  case $sha256 in
    *[!0-9a-f]*) sha256='' ;;
  esac
  [ ${#sha256} = 64 ] || die "the manifest of $url has no SHA-256 for $platform"
  case $bytes in
    '' | 0* | ???????????*) die "the manifest of $url has no believable size for $platform" ;;
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

install_program() {
  program=$app/$version/interlock
  if [ -f "$program" ] && [ "$(digest "$program")" = "$sha256" ]; then
    say "interlock $version is already installed"
  else
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
    chmod 755 "$app/$version"
    mv -f "$tmp/interlock" "$program"
  fi

  [ ! -e "$app/current" ] || [ -L "$app/current" ] || die "$app/current is no link" 'move it away'
  if [ "$(readlink "$app/current" 2>/dev/null)" != "$version" ]; then
    ln -s "$version" "$tmp/current"
    # A plain mv would move the new link into the folder that the old one points to.
    mv -fT "$tmp/current" "$app/current" 2>/dev/null ||
      mv -fh "$tmp/current" "$app/current" 2>/dev/null ||
      ln -sfn "$version" "$app/current"
  fi
  program=$app/current/interlock
}

enroll() {
  set -- --url "$url" --group "$group" --role "$role"
  [ -z "$runtime" ] || set -- "$@" --runtime "$runtime"
  [ -z "$pin" ] || set -- "$@" --pin "$pin"
  [ -z "$insecure_http" ] || set -- "$@" --insecure-http
  # printf is part of the shell, so the key is in nobody's arguments.
  printf '%s\n' "$interlock_key" | "$program" agent enroll "$@" --key-stdin ||
    die 'this machine was not enrolled' 'interlock is installed; run the same line again when the reason above is gone'
  interlock_key=''
}

start_agent() {
  "$program" agent start --group "$group" --role "$role" </dev/null ||
    die 'the agent did not start' "this machine is enrolled; start it with: $program agent start --group '$group' --role $role"
  [ -n "$no_service" ] ||
    say 'note: this version installs no boot service yet: the agent runs until the machine restarts, as with --no-service'
  say "after a restart: $program agent start --group '$group' --role $role"
}

{ main "$@"; }
