#!/bin/sh
# Prints the path of a Python that has OpenAI's own client, unmodified, at the version the tests were
# written against; it is installed into the development cache once. Standard output carries the path
# alone; progress goes to standard error.
HERE="$(cd "$(dirname "$0")" && pwd)"
# shellcheck source=packaging/dev/cache.sh
. "$HERE/cache.sh"

VERSION=3.57.0
ENTRY="openai-python-$VERSION"

# A virtual environment knows its own place, so it cannot be filled elsewhere and renamed: a mark that
# is written last says that it is whole.
if [ ! -f "$CACHE/$ENTRY/whole" ]; then
	need python3 "run OpenAI's client"
	lock openai-python
	if [ ! -f "$CACHE/$ENTRY/whole" ]; then
		say "installing OpenAI's Python client $VERSION …"
		rm -rf "${CACHE:?}/$ENTRY"
		python3 -m venv "$CACHE/$ENTRY" >&2 || die "cannot make a Python environment (on Debian: apt-get install python3-venv)"
		"$CACHE/$ENTRY/bin/pip" install --quiet --disable-pip-version-check "openai==$VERSION" >&2 ||
			die "cannot install openai $VERSION"
		: >"$CACHE/$ENTRY/whole"
	fi
	unlock
fi
printf '%s\n' "$CACHE/$ENTRY/bin/python"
