#!/bin/sh
# Prints a folder for PYTHONPATH with the unmodified reference implementation of The Update Framework in
# Python, installing it once for each version of Python. A folder and no virtual environment: Debian's
# python3 alone cannot make one with pip in it. Standard output carries the path alone; progress goes to
# standard error.
HERE="$(cd "$(dirname "$0")" && pwd)"
# shellcheck source=packaging/dev/cache.sh
. "$HERE/cache.sh"

VERSION=7.0.1

need python3 "run the reference implementation of TUF"
tag="$(python3 -c 'import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform(), sep="-")')" ||
	die "python3 does not run"
ENTRY="tuf-$VERSION-$tag"

if [ ! -d "$CACHE/$ENTRY" ]; then
	lock tuf
	if [ ! -d "$CACHE/$ENTRY" ]; then
		say "installing tuf $VERSION for Python …"
		part
		# Its packages stand in a folder of their own: what else this Python has does not matter to them.
		# Keys of ed25519 need the crypto extra of its signing library.
		PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-warn-conflicts \
			--target "$PART" "tuf==$VERSION" "securesystemslib[crypto]" >&2 || die "cannot install tuf $VERSION with pip"
		publish "$ENTRY"
	fi
	unlock
fi
printf '%s\n' "$CACHE/$ENTRY"
