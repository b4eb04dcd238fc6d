#!/bin/sh
# Enrolls this machine into a model group of an Interlock control plane:
#
#   export INTERLOCK_MODEL_KEY='<key>'
#   curl -fsSL URL/assets/install-model-host.sh | sh -s -- --url URL --group GROUP --role client
#   unset INTERLOCK_MODEL_KEY
#
# It downloads the build of `interlock` for this system from that control plane, checks its size and
# SHA-256, installs it below ~/.nightshift, runs `interlock agent enroll` and has the service manager
# start the agent with the machine (`interlock agent service install`; with --no-service it runs until
# the machine restarts). Where there is a desktop, the menu-bar app Nightshift is installed beside it.
# Running it again with the same options is harmless and needs no key; --dry-run changes nothing.
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
  prepare
  find_app
  read_manifest
  if [ -n "$dry_run" ]; then
    dry_run
    return
  fi
  install_program
  check_service
  enroll
  start_agent
  install_nightshift
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
  --dry-run                    print what would be done, by whom, and change nothing
  --pin sha256//BASE64         the public key of a server with a certificate of its own making
  --insecure-http              allow http to a host that is not this one
  --client-key K               the key as an option: others can read it in the process list;
  --trainer-key K              prefer the environment variable INTERLOCK_MODEL_KEY

The key is needed the first time only.
USAGE
}

read_options() {
  url='' group='' role='' runtime='' pin='' key_role=''
  insecure_http='' no_service='' no_ui='' dry_run='' deriver=''
  while [ $# -gt 0 ]; do
    option=$1
    shift
    case $option in
      --no-service) no_service=1; continue ;;
      --no-ui) no_ui=1; continue ;;
      --dry-run) dry_run=1; continue ;;
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
  os=''
  case $kernel in Linux) os=linux ;; Darwin) os=darwin ;; esac
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
size() { wc -c <"$1" | tr -d '[:space:]'; }

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

# prepare makes a folder for what is fetched; a dry run leaves nothing in the home folder.
prepare() {
  umask 077
  home=${NIGHTSHIFT_HOME:-$HOME/.nightshift}
  if [ -n "$dry_run" ]; then
    tmp=$(mktemp -d) || die 'the temporary folder is not writable'
  else
    mkdir -p "$home/app" || die "$home/app cannot be made" 'is the home folder writable?'
    tmp=$(mktemp -d "$home/app/.install-XXXXXX") || die "$home/app is not writable"
  fi
  trap 'rm -rf "$tmp"' EXIT
  trap 'exit 129' HUP; trap 'exit 130' INT; trap 'exit 143' TERM
}

# find_app names the folder of programs. All control planes whose releases have the same root of trust
# share one; another root has a folder of its own, so that no control plane replaces what another signed.
find_app() {
  app=$home/app
  signed=''
  fetch /model-worker/tuf/metadata/1.root.json "$tmp/root.json" 1048576
  case $status in
    200) signed=1 ;;
    404) ;;
    cut) die "the root of trust of $url broke off or has no end" 'run the same line again' ;;
    *) die "$url/model-worker/tuf/metadata/1.root.json answered $status" 'is --url the address of an Interlock control plane?' ;;
  esac
  held=$app/trust/first.root.json
  [ -f "$held" ] || held=$app/trust/root.json
  [ -f "$held" ] || return 0 # nothing is pinned yet; the updater pins what this control plane has
  if [ -n "$signed" ]; then
    root_id=$(digest "$tmp/root.json")
    [ "$root_id" = "$(digest "$held")" ] || app=$home/app-$(printf '%.8s' "$root_id")
  fi
}

# kept is true when the programs are the updater's: it alone moves them, and only by signed releases.
kept() {
  { [ -f "$app/trust/first.root.json" ] || [ -f "$app/trust/root.json" ]; } &&
    "$app/current/interlock" --version >/dev/null 2>&1 </dev/null
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
  case $sha256 in *[!0-9a-f]*) sha256='' ;; esac
  [ ${#sha256} = 64 ] || die "$1 has no SHA-256 for $platform"
  case $bytes in
    '' | 0* | ???????????*) die "$1 has no believable size for $platform" ;;
  esac
}

# field NAME TEXT: the string value of a field
field() { printf '%s\n' "$2" | sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p'; }

# plain_name TEXT: true for a name that stays in its folder
plain_name() {
  case $1 in '' | [.-]* | *[!A-Za-z0-9._+-]*) return 1 ;; esac
}

install_program() {
  mkdir -p "$app" || die "$app cannot be made"
  if kept; then
    program=$app/current/interlock
    say 'interlock is already installed, and signed updates keep it current'
    return
  fi
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

  for beside in nightshift interlock-tui; do # what stands beside the program moves along
    [ ! -f "$app/current/$beside" ] || [ -f "$app/$version/$beside" ] || cp -p "$app/current/$beside" "$app/$version/$beside" ||
      die "$app/$version/$beside could not be written"
  done
  point current "$version"
  # The updater runs from a link of its own, which moves only after a version has proved itself.
  [ -x "$app/updater/interlock" ] || point updater "$version"
  program=$app/current/interlock
}

# point LINK VERSION
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

# check_service says that this machine cannot have a service while nothing is enrolled yet.
check_service() {
  [ -z "$no_service" ] || return 0
  "$program" agent service check </dev/null ||
    die 'this machine was not enrolled' 'interlock is installed; run the same line again when the reason above is gone, or with --no-service'
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
  set -- --group "$group" --role "$role"
  if [ -n "$no_service" ]; then
    "$program" agent start "$@" </dev/null ||
      die 'the agent did not start' "this machine is enrolled; start it with: $program agent start --group '$group' --role $role"
    say "after a restart of the machine: $program agent start --group '$group' --role $role"
    return
  fi
  "$program" agent service install "$@" </dev/null ||
    die 'the boot service was not installed' "this machine is enrolled; try again with: $program agent service install --group '$group' --role $role"
}

# install_nightshift puts the menu-bar app beside the agent. Without it everything works, so nothing of it
# is a reason to fail.
install_nightshift() {
  if [ -z "$no_ui" ] && desktop; then
    (fetch_nightshift) || say 'note: the menu-bar app was not installed; everything else works without it'
  fi
}

# fetch_nightshift runs as a condition, where set -e does not hold: every step says what it does on failure.
fetch_nightshift() {
  if [ "$os" = darwin ]; then asset=nightshift-macos; else asset=nightshift-linux; fi
  fetch "/assets/$asset.json" "$tmp/nightshift.json" 1048576
  case $status in
    200) ;;
    404) return 0 ;; # this control plane offers none
    *) die "$url/assets/$asset.json answered $status" ;;
  esac
  pointer=$(tr -d '[:space:]' <"$tmp/nightshift.json")
  case $pointer in
    '{'*'"schema":1,'* | '{'*'"schema":1}') ;;
    *) die "Nightshift's release pointer is of a kind this script does not know" ;;
  esac
  ui_version=$(field version "$pointer")
  plain_name "$ui_version" || die "Nightshift's release pointer names the version \"$ui_version\", which is no plain name"
  if [ "$os" = darwin ]; then
    take_entry "Nightshift's release pointer" "$pointer"
    install_bundle
  else
    entry=$(printf '%s\n' "$pointer" | sed -n 's/.*"'"$platform"'":{\([^{}]*\)}.*/\1/p')
    [ -n "$entry" ] || return 0 # none for this processor
    take_entry "Nightshift's release pointer" "$entry"
    install_ui_program
  fi
  say "Nightshift $ui_version starts at the next login"
}

# desktop is true where a person could see a menu bar.
desktop() {
  [ "$os" = darwin ] || [ -n "${DISPLAY-}${WAYLAND_DISPLAY-}" ] || [ -d /usr/share/xsessions ] || [ -d /usr/share/wayland-sessions ]
}

# download FILE TARGET: one file of the control plane, checked against $bytes and $sha256
download() {
  fetch "/assets/$1" "$2" "$bytes"
  { [ "$status" = 200 ] && [ "$(size "$2")" = "$bytes" ] && [ "$(digest "$2")" = "$sha256" ]; } ||
    die "the download of $1 is not what the release pointer says" 'nothing of it was installed'
}

install_ui_program() {
  ui=$(readlink "$app/current" 2>/dev/null) || die "$app/current is no link"
  plain_name "$ui" || die "$app/current is no link to a version"
  ui=$app/$ui/nightshift
  if [ ! -f "$ui" ] || [ "$(digest "$ui")" != "$sha256" ]; then
    say "downloading Nightshift $ui_version ($bytes bytes)"
    download "$file" "$tmp/nightshift"
    { chmod 755 "$tmp/nightshift" && mv -f "$tmp/nightshift" "$ui"; } || die "$ui could not be written"
  fi
  "$app/current/nightshift" --install-autostart </dev/null >&2 || die 'Nightshift did not take its place in the menu bar'
}

install_bundle() {
  say "downloading Nightshift $ui_version ($bytes bytes)"
  download "$file" "$tmp/nightshift.zip"
  ditto -x -k "$tmp/nightshift.zip" "$tmp/bundle" || die 'the app of Nightshift could not be unpacked'
  [ -d "$tmp/bundle/Nightshift.app" ] || die 'the download holds no Nightshift.app'
  bundle=$HOME/Applications/Nightshift.app
  { mkdir -p "$HOME/Applications" && rm -rf "$bundle" && mv "$tmp/bundle/Nightshift.app" "$bundle"; } ||
    die "$bundle could not be written"
  "$bundle/Contents/MacOS/nightshift" --install-autostart </dev/null >&2 || die 'Nightshift did not take its place in the menu bar'
}

dry_run() {
  me=$(id -un 2>/dev/null || echo you)
  would() { say "$(printf '  %-10s %s' "$1" "$2")"; }
  say 'this line would:'
  if kept; then
    would "$me" "keep the program in $app, which signed updates keep current"
  else
    would "$me" "download $url/assets/$file ($bytes bytes, SHA-256 $sha256)"
    would "$me" "write $app/$version/interlock, and the links $app/current and $app/updater"
  fi
  would "$me" "enroll this machine in group $group, role $role: $home/groups/…"
  if [ -n "$no_service" ]; then
    would "$me" 'start the agent, until the machine restarts'
  elif [ "$os" = darwin ]; then
    would root "write /Library/LaunchDaemons/sh.interlock.model-worker.<model id>.$role.plist, run as $me"
    would root "write /Library/LaunchDaemons/sh.interlock.updater.plist, run as $me; launchctl bootstrap for both"
  else
    would root "write /etc/systemd/system/sh.interlock.model-worker.<model id>.$role.service, run as $me"
    would root "write /etc/systemd/system/sh.interlock.updater.service and .timer, run as $me"
    would root 'run systemctl daemon-reload and systemctl enable --now'
  fi
  [ -n "$no_ui" ] || ! desktop || would "$me" 'install the menu-bar app Nightshift, if this control plane has it'
  say 'nothing was changed'
}

{ main "$@"; }
