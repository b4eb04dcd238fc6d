#!/usr/bin/env bash
# Nightshift on a real panel: Xvfb, openbox and xfce4-panel, with a machine of three played agents.
#
#   packaging/test/nightshift-x.sh [FOLDER]
#
# The app starts before there is a panel, shows itself when one comes and again when it restarts; its menu is
# clicked, its window opened. Then machines in other states are looked at, from one in no group to one whose
# update was taken back. Pictures go to FOLDER (default docs/img). It fails when a click does not reach
# the agent, when Fyne says that something was drawn from the wrong goroutine, and when the app in the bar is
# larger than 120 MB or not idle, and when the panel found the menu in disorder. With AGENT_HOME=… the machine
# is a real one, whose agents are only looked at; LOG=FILE keeps what everybody said.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
idle_seconds=${IDLE_SECONDS:-20}

fail() { echo "nightshift-x: $*" >&2; exit 1; }

outside() {
  for tool in xvfb-run dbus-run-session openbox xfce4-panel xdotool import convert display; do
    command -v "$tool" >/dev/null || fail "$tool is missing; packaging/dev/setup.sh installs it"
  done
  shots=${1:-$top/docs/img}
  work=$(mktemp -d)
  trap '[ -z "${LOG:-}" ] || cp "$work/log" "$LOG"; rm -rf "$work"' EXIT
  cd "$top"
  CGO_ENABLED=1 go build -tags gles -o "$work/nightshift" ./cmd/nightshift
  CGO_ENABLED=0 go build -o "$work/fakeagents" ./internal/testkit/fakeagents/program
  mkdir -p "$work/home" "$shots"
  code=0
  env -i PATH="$PATH" HOME="$work/home" WORK="$work" SHOTS="$shots" IDLE_SECONDS="$idle_seconds" AGENT_HOME="${AGENT_HOME:-}" \
    LANG=C.UTF-8 LIBGL_ALWAYS_SOFTWARE=1 NO_AT_BRIDGE=1 \
    timeout 300 xvfb-run -a -s '-screen 0 1000x700x24' dbus-run-session -- bash ${TRACE:+-x} "$here/nightshift-x.sh" --inside \
    >"$work/log" 2>&1 </dev/null || code=$?
  grep '^nightshift-x:' "$work/log" || true
  if [ "$code" != 0 ]; then
    tail -n 40 "$work/log" >&2
    fail "failed with $code"
  fi
  if grep -n 'Error in Fyne call thread' "$work/log" >&2; then
    fail "something was drawn from the wrong goroutine"
  fi
  if grep -n 'Children but no menu' "$work/log" >&2; then
    fail "the panel got a submenu before its parent"
  fi
}

say() { echo "nightshift-x: $*"; }

# shellcheck disable=SC2153 # WORK and SHOTS come from the outer run
shot() { import -window root "$WORK/$1.png"; }

# await COMMAND…: until it succeeds, 15 s at most.
await() {
  for _ in $(seq 150); do
    "$@" && return 0
    sleep 0.1
  done
  fail "waited in vain for: $*"
}

# menu opens the menu of the item, which stands alone at the right end of the panel.
menu() {
  xdotool mousemove 986 14 click 1
  sleep 1
}

close_menu() {
  xdotool key Escape key Escape
  sleep 0.3
}

# lit: something has been drawn at the end of the panel.
lit() { [ "$(import -window root -crop 24x24+974+2 +repage -format '%k' info:)" -gt 20 ]; }

unlit() { ! lit; }

window_there() { xdotool search --name '^Nightshift$' >/dev/null 2>&1; }

window_gone() { ! window_there; }

agent_said() { grep -q "$1" "$WORK/agents"; }

window() { xdotool search --name '^Nightshift$' | head -n 1; }

# picture NAME: takes the picture of the window.
# shellcheck disable=SC2153
picture() {
  await window_there
  sleep 1.5
  import -window "$(window)" "$SHOTS/nightshift-$1.png"
}

# page PAGE [NAME]: shows a page of the window and takes its picture.
page() {
  "$WORK/nightshift" --page "$1"
  picture "${2:-$1}"
}

close_window() {
  xdotool search --name '^Nightshift$' windowclose
  await window_gone
}

# menu_picture NAME [Y [LEFT]]: takes the picture of the menu, with the submenu open whose line is at Y, from
# LEFT to the right edge.
menu_picture() {
  local left=${3:-140}
  menu
  [ -z "${2:-}" ] || xdotool mousemove 800 "$2"
  sleep 1
  shot "$1"
  convert "$WORK/$1.png" -crop "$((1000 - left))x320+$left+0" +repage "$SHOTS/nightshift-$1.png"
}

# Where lines of the menu are on a machine with one group.
first_group=71
updates=148

# scene NAME PAGE [Y [LEFT]]: a machine of its own in another state: its menu and a page of its window, as it is on
# a light desktop.
scene() {
  local agents app
  export NIGHTSHIFT_HOME=$HOME/$1 FYNE_THEME=light
  : >"$WORK/agents"
  "$WORK/fakeagents" "$1" >>"$WORK/agents" &
  agents=$!
  await agent_said "scene $1 plays"
  "$WORK/nightshift" &
  app=$!
  await lit
  sleep 1
  menu_picture "menu-$1" "${@:3}"
  if [ "$1" = custom ]; then # its line opens the editor of hours
    xdotool mousemove 500 $first_group mousemove 450 $first_group mousemove 420 172
    sleep 0.3
    xdotool click 1
    picture hours
  else
    close_menu
  fi
  page "$2" "$2-$1"
  if [ "$1" = trouble ]; then
    xdotool windowsize --sync "$(window)" 450 520
    picture "$2-narrow"
  fi
  close_window
  kill "$app" "$agents"
  wait "$app" "$agents" || true
  await unlit
}

rss() { awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$1/status"; }

own() { awk '/^RssAnon/ { print int($2 / 1024) }' "/proc/$1/status"; }

ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

panel() {
  xfce4-panel --disable-wm-check &
  panel=$!
}

inside() {
  trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
  export NIGHTSHIFT_HOME=${AGENT_HOME:-$HOME/.nightshift}
  local conf=$HOME/.config/xfce4/xfconf/xfce-perchannel-xml
  mkdir -p "$conf"
  cp "$(dirname "$0")/xfce4-panel.xml" "$conf/"
  openbox &
  sleep 0.5
  convert -size 1000x700 'gradient:#3a4a6b-#1d2438' "$WORK/ground.png"
  display -window root "$WORK/ground.png" || true # it paints and says 1
  : >"$WORK/agents"
  if [ -z "$AGENT_HOME" ]; then
    "$WORK/fakeagents" >>"$WORK/agents" &
    await agent_said 'plays under'
  fi
  "$WORK/nightshift" &
  app=$!
  sleep 1
  panel
  await lit
  say "the item came after its panel"
  kill "$panel"
  wait "$panel" || true
  await unlit
  panel
  await lit
  say "the item came back to a restarted panel"

  menu_picture menu 96
  if [ -z "$AGENT_HOME" ]; then
    xdotool mousemove 500 98 mousemove 450 98 mousemove 420 171
    sleep 0.3
    xdotool click 1
    await agent_said 'support-bot: wish 1 is paused'
    say "a click on Paused reached the agent"
    menu_picture menu-paused 96
    xdotool mousemove 500 98 mousemove 450 98 mousemove 420 122
    sleep 0.3
    xdotool click 1
    await agent_said 'support-bot: wish 2 is always'
    say "and back to Always"
  else
    close_menu
  fi

  for p in roles updates about uninstall; do page "$p"; done
  local shown
  shown=$(pgrep -P "$app" | head -n 1)
  say "the window takes $(rss "$shown") MB while it is open, $(own "$shown") MB of it its own; drawn without a graphics card"
  close_window

  sleep 2
  local before after size
  before=$(ticks "$app")
  sleep "$IDLE_SECONDS"
  after=$(ticks "$app")
  size=$(rss "$app")
  say "idle: $size MB, $((after - before)) ticks of 10 ms in $IDLE_SECONDS s"
  [ "$size" -le 120 ] || fail "the app in the bar takes $size MB; the limit is 120"
  [ $((after - before)) -le $((IDLE_SECONDS / 4 + 1)) ] || fail "the app in the bar is not idle"
  kill "$app"
  wait "$app" || fail "the app ended with $?"
  [ -z "$AGENT_HOME" ] || return 0

  await unlit
  scene empty roles
  scene one roles $first_group
  scene custom roles $first_group
  scene older roles $first_group
  scene available updates $updates
  scene reverted updates $updates
  scene trouble roles $first_group 0 # a long name and a long reason
  say "seven other machines were looked at"
}

if [ "${1:-}" = --inside ]; then
  inside
else
  outside "$@"
fi
