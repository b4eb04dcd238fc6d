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
    timeout 900 xvfb-run -a -s '-screen 0 1000x700x24' dbus-run-session -- bash ${TRACE:+-x} "$here/nightshift-x.sh" --inside \
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

# soon COMMAND…: until it succeeds, some 5 s at most.
soon() {
  for _ in $(seq 50); do
    "$@" && return 0
    sleep 0.1
  done
  return 1
}

# await COMMAND…: until it succeeds, a minute at most.
await() {
  for _ in $(seq 12); do
    soon "$@" && return 0
  done
  fail "waited in vain for: $*"
}

# again COMMAND…: until it succeeds, 12 times at most. What is clicked while something else is still drawn is lost.
again() {
  for _ in $(seq 12); do
    "$@" && return 0
  done
  fail "tried in vain: $*"
}

# seen [WINDOW [AREA]] is what is drawn there, as a number.
seen() { import -window "${1:-root}" ${2:+-crop "$2" +repage} rgb:- | cksum; }

# still WINDOW: nothing moves in it.
still() {
  local before
  before=$(seen "$1")
  sleep 0.3
  [ "$(seen "$1")" = "$before" ]
}

# differs AREA WAS: something else than before is drawn there.
differs() { [ "$(seen root "$1")" != "$2" ]; }

# below is where the menu is, when it is open; beside it a submenu.
below=60x60+930+34
beside=240x200+380+60

# menu opens the menu of the item, which stands alone at the right end of the panel.
menu() {
  local closed
  xdotool mousemove 986 14
  soon still root || true
  closed=$(seen root $below)
  open_menu() {
    xdotool mousemove 986 14 click 1
    soon differs $below "$closed"
  }
  again open_menu
  soon still root || true # it is drawn whole
}

# submenu Y: opens the one whose line is at Y.
submenu() {
  local closed
  closed=$(seen root $beside)
  xdotool mousemove 800 "$1"
  soon differs $beside "$closed" || true # the picture shows it when there was none
  soon still root || true
}

close_menu() {
  xdotool key Escape key Escape
  sleep 0.3
  soon still root || true
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
  soon still "$(window)" || true
  import -window "$(window)" "$SHOTS/nightshift-$1.png"
}

# page PAGE [NAME]: shows a page of the window and takes its picture.
page() {
  await "$WORK/nightshift" --page "$1" # a busy app may be slow to answer
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
  [ -z "${2:-}" ] || submenu "$2"
  shot "$1"
  convert "$WORK/$1.png" -crop "$((1000 - left))x320+$left+0" +repage "$SHOTS/nightshift-$1.png"
}

# choose Y LINE: clicks a line of the submenu whose line is at Y.
choose() {
  xdotool mousemove 500 "$1" mousemove 450 "$1" mousemove 420 "$2"
  sleep 0.3
  xdotool click 1
}

# chosen Y LINE COMMAND…: opens the menu, chooses, and sees whether the command succeeds soon. The menu is open
# already when OPEN is set.
chosen() {
  local y=$1 line=$2
  shift 2
  if [ -z "${OPEN:-}" ]; then
    menu
    submenu "$y"
  fi
  OPEN=
  choose "$y" "$line"
  soon "$@" && return 0
  close_menu
  return 1
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
    OPEN=1
    again chosen $first_group 172 window_there
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

# rests PID: it took no time of the processor for a second.
rests() {
  local before
  before=$(ticks "$1")
  sleep 1
  [ "$(ticks "$1")" = "$before" ]
}

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
    OPEN=1
    again chosen 98 171 agent_said 'support-bot: wish [0-9]* is paused'
    say "a click on Paused reached the agent"
    menu_picture menu-paused 96
    OPEN=1
    again chosen 98 122 agent_said 'support-bot: wish [0-9]* is always'
    say "and back to Always"
  else
    close_menu
  fi

  for p in roles updates about uninstall; do page "$p"; done
  local shown
  shown=$(pgrep -P "$app" | head -n 1)
  say "the window takes $(rss "$shown") MB while it is open, $(own "$shown") MB of it its own; drawn without a graphics card"
  close_window

  await rests "$app" # the end of the window is behind it
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
