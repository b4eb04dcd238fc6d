#!/usr/bin/env bash
# Makes a fresh Debian machine ready for `make test`, or with the argument "demo" for `make demo` alone:
# installs the programs that are missing, when run as root; otherwise says which they are. Does nothing
# when all are there.
# Usage: setup.sh [demo]
set -euo pipefail

# One line a need: the command that must be on PATH, or the file that must be there, and the Debian
# package that brings it.
demo='gcc gcc
make make
git git
curl curl
python3 python3
pip3 python3-pip
unzip unzip
cmake cmake
ninja ninja-build
g++ g++
tmux tmux
jq jq
pgrep procps'
test='shellcheck shellcheck
nginx nginx-light
busybox busybox
systemd-analyze systemd
debootstrap debootstrap
lintian lintian
rpm rpm
rpmlint rpmlint
desktop-file-validate desktop-file-utils
xvfb-run xvfb
xauth xauth
import imagemagick
xdotool xdotool
openbox openbox
xfce4-panel xfce4-panel
prometheus-node-exporter prometheus-node-exporter
dbus-run-session dbus
/usr/share/doc/python3-venv python3-venv
/usr/include/GL/gl.h libgl1-mesa-dev
/usr/include/GLES2/gl2.h libgles-dev
/usr/include/X11/Xlib.h libx11-dev
/usr/include/X11/Xcursor/Xcursor.h libxcursor-dev
/usr/include/X11/extensions/Xrandr.h libxrandr-dev
/usr/include/X11/extensions/Xinerama.h libxinerama-dev
/usr/include/X11/extensions/XInput2.h libxi-dev
/usr/include/X11/extensions/xf86vmode.h libxxf86vm-dev'

case ${1-} in
  '') needs=$demo$'\n'$test ;;
  demo) needs=$demo ;;
  *) echo 'usage: setup.sh [demo]' >&2 && exit 2 ;;
esac
PATH=$PATH:/usr/sbin:/sbin
command -v go >/dev/null || {
  echo "setup: Go is not on PATH; install the version that go.mod names from https://go.dev/dl/" >&2
  exit 1
}

packages=()
while read -r command package; do
  case $command in
    /*) [ -e "$command" ] || packages+=("$package") ;;
    *) command -v "$command" >/dev/null || packages+=("$package") ;;
  esac
done <<<"$needs"
[ ${#packages[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "setup: these are missing: ${packages[*]}" >&2
  echo "setup: on Debian, as root: apt-get install --no-install-recommends ${packages[*]}" >&2
  exit 1
fi

# A package must not start its service on this machine: the tests start nginx by themselves.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  printf '#!/bin/sh\nexit 101\n' >$policy
  chmod +x $policy
  trap 'rm -f $policy' EXIT
fi

echo "setup: installing ${packages[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { apt-get update -qq && apt-get install -o DPkg::Lock::Timeout=120 -qq -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
  cat "$log" >&2
  rm -f "$log"
  exit 1
fi
rm -f "$log"
