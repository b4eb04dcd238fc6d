#!/usr/bin/env bash
# Prints the path of a pinned Go tool, building it first when it is not in the cache.
# The version is part of the file name, so that two checkouts with two pins do not fight.
# Usage: gotool.sh golangci-lint|nfpm|cyclonedx-gomod
set -euo pipefail

case ${1-} in
  golangci-lint) package=github.com/golangci/golangci-lint/v2/cmd/golangci-lint version=v2.15.0 ;;
  nfpm) package=github.com/goreleaser/nfpm/v2/cmd/nfpm version=v2.48.0 ;;
  cyclonedx-gomod) package=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod version=v1.10.0 ;;
  *)
    echo "usage: gotool.sh golangci-lint|nfpm|cyclonedx-gomod" >&2
    exit 2
    ;;
esac
bin="${XDG_CACHE_HOME:-$HOME/.cache}/interlock-dev/bin"
tool="$bin/$1-$version"

if [ ! -x "$tool" ]; then
  echo "$1 $version is not built yet: building it once into $bin" >&2
  mkdir -p "$bin"
  tmp=$(mktemp -d "$bin/.build-XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  GOBIN=$tmp go install "$package@$version" >&2
  mv -f "$tmp/$1" "$tool"
fi
printf '%s\n' "$tool"
