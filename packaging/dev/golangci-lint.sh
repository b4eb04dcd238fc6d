#!/usr/bin/env bash
# Prints the path of the pinned golangci-lint, building it first when it is not in the cache.
# The version is part of the file name, so that two checkouts with two pins do not fight.
set -euo pipefail

version=v2.15.0
bin="${XDG_CACHE_HOME:-$HOME/.cache}/interlock-dev/bin"
tool="$bin/golangci-lint-$version"

if [ ! -x "$tool" ]; then
  echo "golangci-lint $version is not built yet: building it once into $bin" >&2
  mkdir -p "$bin"
  tmp=$(mktemp -d "$bin/.build-XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  GOBIN=$tmp go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version" >&2
  mv -f "$tmp/golangci-lint" "$tool"
fi
printf '%s\n' "$tool"
