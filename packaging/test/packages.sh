#!/usr/bin/env bash
# Builds the packages for this machine and tries them: lintian and rpmlint find nothing, two builds are
# the same bytes, the deb installs into a clean Debian whose pid 1 is systemd, its service passes
# systemd's own check, serves, survives an upgrade and goes away with the package, and the rpm installs
# and erases below a root of its own. Needs root.
# Usage: packages.sh [BINDIR]   (BINDIR: programs that are built already)
set -euo pipefail
cd "$(dirname "$0")/../.."
. packaging/release/common.sh

need lintian lintian
need rpm rpm
need rpmlint rpmlint
[ "$(id -u)" = 0 ] || die 'needs root: it installs packages into trees of its own'
arch=$(go env GOARCH)
machine=packaging/test/systemd-machine.sh
tmp=$(mktemp -d "${TMPDIR:-/var/tmp}/interlock-packages-XXXXXX")
cleanup() {
  [ ! -e "$tmp/debian" ] || "$machine" destroy "$tmp/debian" || :
  rm -rf --one-file-system "$tmp"
}
trap cleanup EXIT
step() { printf -- '-- %s\n' "$*"; }

bin=${1-}
if [ -n "$bin" ]; then
  version=$("$bin/interlock" version | sed -n 's/^interlock \([^ ]*\).*/\1/p')
else
  bin=$tmp/bin version=0.1.0-dev.test
  mkdir "$bin"
  go build -ldflags "$(ldflags $version)" -o "$bin" ./cmd/interlock ./cmd/interlock-tui
fi

step 'build twice: the same bytes'
packaging/release/packages.sh "$tmp/out" "$version" "$arch" "$bin"
packaging/release/packages.sh "$tmp/again" "$version" "$arch" "$bin" 2>"$tmp/log" || { cat "$tmp/log" >&2; exit 1; }
diff <(cd "$tmp/out" && sha256sum -- *) <(cd "$tmp/again" && sha256sum -- *)

step 'lintian, rpmlint'
lintian --allow-root --tag-display-limit 0 --fail-on error,warning "$tmp"/out/*.deb
rpmlint -c packaging/nfpm/rpmlint.toml "$tmp"/out/*.rpm | tee "$tmp/rpmlint"
grep -q ' 0 errors, 0 warnings' "$tmp/rpmlint"

if [ -f "$bin/nightshift" ]; then
  step 'the desktop file, and what the app of the menu bar is linked to'
  desktop-file-validate packaging/linux/nightshift.desktop
  # Each library that the program names is in a package that its own depends on.
  depends=$(dpkg-deb -f "$tmp"/out/nightshift_*.deb Depends)
  for library in $(objdump -p "$bin/nightshift" | awk '$1 == "NEEDED" { print $2 }'); do
    owner=$(dpkg -S "*/$library" | sed -n 's/:.*//p' | sort -u | head -1)
    case ", $depends," in *", $owner,"*) ;; *) die "nightshift is linked to $library of $owner, and depends on $depends" ;; esac
  done
fi

step 'completions are read by their shells'
dpkg-deb -x "$tmp"/out/interlock_*.deb "$tmp/tree"
bash -n "$tmp/tree/usr/share/bash-completion/completions/interlock"
for shell in zsh fish; do
  ! command -v $shell >/dev/null || for file in "$tmp"/tree/usr/share/{zsh/vendor-completions/_interlock,fish/vendor_completions.d/interlock.fish}; do
    case $file in *"/$shell/"*) $shell -n "$file" ;; esac
  done
done

step 'rpm --root: install, verify, erase'
mkdir -p "$tmp/rpmroot"
rpm() { command rpm --root "$tmp/rpmroot" --dbpath /var/lib/rpm "$@" 2> >(grep -vE "RPM should not be used|However assuming you know" >&2 || :); }
rpm --initdb
# The root has no shell to run the scripts with, and nothing that could provide one.
rpm --install --nodeps --noscripts "$tmp"/out/interlock-[0-9]*.rpm
rpm --verify --nodeps interlock
"$tmp/rpmroot/usr/bin/interlock" version | grep -q "$version"
rpm --erase --noscripts interlock
left=$(find "$tmp/rpmroot" -path "$tmp/rpmroot/var/lib/rpm" -prune -o -name '*interlock*' -print)
[ -z "$left" ] || die "the rpm left behind: $left"

step 'a clean Debian with systemd: install'
"$machine" create "$tmp/debian"
"$machine" start "$tmp/debian" --bind "$tmp/out:/packages:ro"
inside() { "$machine" exec "$tmp/debian" -- "$@"; }
files() { inside find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /var/log -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /var/cache \) -prune -o -print | LC_ALL=C sort; }
files >"$tmp/before"
inside sh -c 'dpkg --install /packages/interlock_*.deb' >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; die 'the deb does not install'; }
inside interlock version | grep -q "$version"
inside interlock-tui --version | grep -q "$version"
[ "$(inside systemctl is-enabled sh.interlock.serve.service 2>&1)" = disabled ] || die 'the service is not disabled after the install'
[ "$(inside systemctl is-active sh.interlock.serve.service)" = inactive ] || die 'the service was started by the install'
inside getent passwd interlock | grep -q nologin || die 'the account of the service is missing'

step 'its service: check, start, upgrade'
said=$(inside systemd-analyze verify --man=no sh.interlock.serve.service 2>&1) || die "systemd-analyze verify: $said"
[ -z "$said" ] || die "systemd-analyze verify: $said"
inside systemd-analyze security --no-pager --threshold=25 sh.interlock.serve.service >"$tmp/security" || { tail -3 "$tmp/security" >&2; die 'the unit is less confined than it was'; }
inside systemctl start sh.interlock.serve.service
healthy() { inside bash -c 'exec 3<>/dev/tcp/127.0.0.1/8090 && printf "GET /q/health HTTP/1.0\r\nHost: localhost\r\n\r\n" >&3 && head -1 <&3' 2>/dev/null | grep -q ' 200 '; }
for _ in {1..100}; do
  if healthy; then break; fi
  sleep .1
done
healthy || { inside journalctl -qu sh.interlock.serve --no-pager >&2; die 'the control plane does not serve'; }
[ "$(inside stat -c '%U %a' /var/lib/interlock)" = 'interlock 700' ] || die 'the data folder is not the service'"'"'s alone'
pid=$(inside systemctl show -p MainPID --value sh.interlock.serve)
inside sh -c 'dpkg --install /packages/interlock_*.deb' >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; die 'the deb does not install over itself'; }
[ "$(inside systemctl show -p MainPID --value sh.interlock.serve)" = "$pid" ] || die 'an upgrade stopped the control plane'

step 'remove and purge'
inside dpkg --remove interlock >/dev/null 2>&1
! inside systemctl -q is-active sh.interlock.serve.service || die 'the service outlives the package'
inside dpkg --purge interlock >"$tmp/log" 2>&1
grep -q "data stays in /var/lib/interlock" "$tmp/log" || die "the purge does not say that the data stays: $(cat "$tmp/log")"
inside test -f /var/lib/interlock/interlock.db || die 'the purge deleted the data of the control plane'
files >"$tmp/after"
# What stays is the data, and the account that owns it.
left=$(diff "$tmp/before" "$tmp/after" | grep '^[<>]' | grep -vE '^> /var/lib/interlock(/|$)|^> /etc/(passwd|group|shadow|gshadow)-$|^> /etc/.pwd.lock$' || :)
[ -z "$left" ] || die "install and purge changed: $left"
echo 'packages: installed, served, upgraded, purged'
