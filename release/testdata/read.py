"""Reads a repository with the reference client of The Update Framework, as a machine would.

read.py URL ROOT CACHE: URL of the mirror, file of the root to trust, folder to keep metadata in. Prints
the verified targets as JSON: path to length, description, and SHA-256 of the downloaded bytes.
"""

import hashlib
import json
import os
import sys

from tuf.ngclient import Updater

url, root, cache = sys.argv[1:]
downloads = os.path.join(cache, "downloads")
os.makedirs(downloads, exist_ok=True)
with open(root, "rb") as f:
    updater = Updater(
        os.path.join(cache, "metadata"),
        url + "/metadata/",
        target_dir=downloads,
        target_base_url=url + "/targets/",
        bootstrap=f.read(),
    )
updater.refresh()
with open(os.path.join(cache, "metadata", "targets.json"), "rb") as f:
    paths = json.load(f)["signed"]["targets"]
out = {}
for path in paths:
    info = updater.get_targetinfo(path)
    with open(updater.download_target(info), "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    out[path] = {"length": info.length, "custom": info.custom, "sha256": digest}
json.dump(out, sys.stdout)
