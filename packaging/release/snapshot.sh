#!/usr/bin/env bash
# Builds everything that a release publishes into dist/snapshot, without signing any of it:
# archives for four platforms, the bare programs that machines update to, deb and rpm packages, the
# folder that the OCI image is built in, an SBOM for each program, the Homebrew formula, SHA256SUMS.
# Usage: snapshot.sh VERSION
set -euo pipefail
cd "$(dirname "$0")/../.."
. packaging/release/common.sh

[ $# = 1 ] || die 'usage: snapshot.sh VERSION'
version=$1
out=$PWD/dist/snapshot
bins=$PWD/dist/snapshot-bin
rm -rf "$out" "$bins"
mkdir -p "$out/oci/data/var/lib/interlock" "$out/oci/root/var/lib" "$out/oci/root/etc/ssl/certs" "$out/oci/root/tmp" "$bins"
umask 022
step() { printf -- '-- %s\n' "$*"; }

step "programs $version"
for platform in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64; do
  mkdir "$bins/$platform"
  GOOS=${platform%-*} GOARCH=${platform#*-} go build -ldflags "$(ldflags "$version")" -o "$bins/$platform" ./cmd/interlock ./cmd/interlock-tui
done
# The window needs cgo, and so a compiler and headers of the platform: here that is this machine's own.
native=$(go env GOOS)-$(go env GOARCH)
if [ -f cmd/nightshift/main.go ]; then
  CGO_ENABLED=1 go build -tags gles -ldflags "$(ldflags "$version")" -o "$bins/$native" ./cmd/nightshift
fi

step 'archives'
pages=$bins/pages
go run ./internal/dev/manpages "$pages" "$version" "$SOURCE_DATE_EPOCH"
sed -e "s/@DATE@/$(date_of '%b %Y')/" -e "s/@VERSION@/$version/" packaging/man/interlock-tui.1 >"$pages/man/interlock-tui.1"
packaging/release/licenses.sh ./cmd/interlock ./cmd/interlock-tui >"$pages/THIRD-PARTY-LICENSES"
for platform in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64; do
  name=interlock_${version}_${platform/-/_}
  # Names, owners and dates are fixed, so that two builds of one commit are the same bytes.
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -cf - \
    -C "$bins/$platform" interlock interlock-tui -C "$pages" man completions THIRD-PARTY-LICENSES \
    -C "$PWD" LICENSE README.md CHANGELOG.md | gzip -9n >"$out/$name.tar.gz"
  for program in "$bins/$platform"/*; do cp "$program" "$out/${program##*/}-$platform"; done
done

step 'packages'
for arch in amd64 arm64; do packaging/release/packages.sh "$out" "$version" $arch "$bins/linux-$arch"; done

step 'image folder'
cp packaging/oci/Containerfile "$bins/linux-amd64/interlock" "$out/oci"
mv "$out/oci/interlock" "$out/oci/interlock-linux-amd64"
cp "$bins/linux-arm64/interlock" "$out/oci/interlock-linux-arm64"
authorities=/etc/ssl/certs/ca-certificates.crt
[ -f $authorities ] || die "$authorities is missing; on Debian: apt-get install ca-certificates"
cp $authorities "$out/oci/root/etc/ssl/certs/ca-certificates.crt"
chmod 1777 "$out/oci/root/tmp"
chmod 700 "$out/oci/data/var/lib/interlock" "$out/oci/root/var/lib"
printf 'interlock:x:64790:64790:Interlock control plane:/var/lib/interlock:/sbin/nologin\n' >"$out/oci/root/etc/passwd"
printf 'interlock:x:64790:\n' >"$out/oci/root/etc/group"

# Nothing is fetched for it, so it is built wherever there is something to build it with.
if command -v buildah >/dev/null; then
  store=(--root "$bins/images" --runroot "$bins/run" --storage-driver vfs)
  for arch in amd64 arm64; do
    buildah "${store[@]}" build-using-dockerfile --quiet --isolation chroot --format docker --platform "linux/$arch" \
      --timestamp "$SOURCE_DATE_EPOCH" --build-arg "VERSION=$version" -t "interlock:$version" "$out/oci" >/dev/null
    buildah "${store[@]}" push --quiet "interlock:$version" "docker-archive:$out/interlock_${version}_image_$arch.tar:interlock:$version"
  done
else
  echo "snapshot.sh: buildah is not here: dist/snapshot/oci holds the recipe with all that goes in, the image is not built" >&2
fi

step 'bills of materials'
sbom=$(packaging/dev/gotool.sh cyclonedx-gomod)
for command in interlock interlock-tui nightshift; do
  [ -f "cmd/$command/main.go" ] || continue
  cgo=0
  [ $command != nightshift ] || cgo=1
  CGO_ENABLED=$cgo GOFLAGS="$GOFLAGS -tags=gles" "$sbom" app -json -licenses -std -noserial -main "cmd/$command" \
    -output "$out/$command.cdx.json" . 2>"$bins/sbom.log" || { cat "$bins/sbom.log" >&2; exit 1; }
done

step 'formula'
digest() { sha256sum "$out/interlock_${version}_$1.tar.gz" | cut -d' ' -f1; }
sed -e "s/@VERSION@/$version/g" \
  -e "s/@SHA256_DARWIN_ARM64@/$(digest darwin_arm64)/" -e "s/@SHA256_DARWIN_AMD64@/$(digest darwin_amd64)/" \
  -e "s/@SHA256_LINUX_ARM64@/$(digest linux_arm64)/" -e "s/@SHA256_LINUX_AMD64@/$(digest linux_amd64)/" \
  packaging/homebrew/interlock.rb.in >"$out/interlock.rb"

step 'checksums'
# shellcheck disable=SC2094 # find leaves the list itself out
(cd "$out" && find . -type f ! -path './oci/*' ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
rm -rf "$bins"
ls -l "$out"
