#!/usr/bin/env bash
# Prints the licences of the Go modules that are part of the named commands, each text once a module.
# Usage: licenses.sh PACKAGE...
set -euo pipefail
# shellcheck source=packaging/release/common.sh
. "$(dirname "$0")/common.sh"

# shellcheck disable=SC2016 # the template is go list's
go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' "$@" | LC_ALL=C sort -u |
  while read -r module version dir; do
    found=
    for file in "$dir"/*LICEN[CS]E* "$dir"/COPYING* "$dir"/NOTICE*; do
      [ -f "$file" ] || continue
      found=1
      printf '=== %s %s: %s\n\n' "$module" "$version" "${file##*/}"
      cat "$file"
      printf '\n'
    done
    [ -n "$found" ] || die "module $module $version has no licence file in $dir: find out what it may be used under"
  done

printf '=== The Go standard library and runtime %s: LICENSE\n\n' "$(go env GOVERSION)"
cat "$(go env GOROOT)/LICENSE"
