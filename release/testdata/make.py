"""Makes a repository with the reference implementation of The Update Framework.

make.py DIR: below it metadata/ and targets/ in consistent snapshots. Two of three root keys; the second
root replaces a root key and the timestamp's, and the key of the targets is of another kind.
"""

import hashlib
import os
import sys
from datetime import datetime, timedelta, timezone

from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import Metadata, MetaFile, Root, Snapshot, TargetFile, Targets, Timestamp
from tuf.api.serialization.json import JSONSerializer

base = sys.argv[1]
os.makedirs(os.path.join(base, "metadata"))
expires = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=7)


def write(name, md):
    data = md.to_bytes(JSONSerializer(compact=False))
    with open(os.path.join(base, "metadata", name), "wb") as f:
        f.write(data)
    return MetaFile(md.signed.version, len(data), {"sha256": hashlib.sha256(data).hexdigest()})


def signed(value, *signers):
    md = Metadata(value)
    for signer in signers:
        md.sign(signer, append=True)
    return md


roots = [CryptoSigner.generate_ed25519() for _ in range(3)]
timestamp_key, snapshot_key = CryptoSigner.generate_ed25519(), CryptoSigner.generate_ed25519()
targets_key = CryptoSigner.generate_ecdsa()
root = Root(expires=expires, consistent_snapshot=True)
for signer in roots:
    root.add_key(signer.public_key, "root")
root.roles["root"].threshold = 2
root.add_key(timestamp_key.public_key, "timestamp")
root.add_key(snapshot_key.public_key, "snapshot")
root.add_key(targets_key.public_key, "targets")
write("1.root.json", signed(root, *roots[:2]))

fresh_root, fresh_timestamp = CryptoSigner.generate_ed25519(), CryptoSigner.generate_ed25519()
root.revoke_key(roots[0].public_key.keyid, "root")
root.add_key(fresh_root.public_key, "root")
root.revoke_key(timestamp_key.public_key.keyid, "timestamp")
root.add_key(fresh_timestamp.public_key, "timestamp")
root.version = 2
write("2.root.json", signed(root, roots[0], roots[1], fresh_root))

targets = Targets(expires=expires)
for version, yanked in (("1.0.0", ""), ("1.1.0", ""), ("1.2.0", "verliert Aufträge <&> \"q\" \\ 日本")):
    data = b"interlock " + version.encode()
    path = f"interlock/{version}/interlock-linux-amd64"
    digest = hashlib.sha256(data).hexdigest()
    custom = {
        "program": "interlock", "version": version, "os": "linux", "arch": "amd64",
        "channels": {"stable": 100}, "yanked": yanked, "later": {"unknown": [1, None, True]},
    }
    targets.targets[path] = TargetFile(len(data), {"sha256": digest}, path, {"custom": custom})
    file = os.path.join(base, "targets", "interlock", version, f"{digest}.interlock-linux-amd64")
    os.makedirs(os.path.dirname(file))
    with open(file, "wb") as f:
        f.write(data)
meta = write("1.targets.json", signed(targets, targets_key))
meta = write("1.snapshot.json", signed(Snapshot(expires=expires, meta={"targets.json": meta}), snapshot_key))
write("timestamp.json", signed(Timestamp(expires=expires, snapshot_meta=meta), fresh_timestamp))
