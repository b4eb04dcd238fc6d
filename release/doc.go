// Package release is the repository side of signed releases: it keeps a folder of metadata in the form
// of The Update Framework (TUF) with the released programs, and the keys that sign it. It builds release
// descriptions, signs, publishes, renews and withdraws.
//
// It runs on the release machine only. The control plane mirrors what Files lists and holds no key.
//
// # Folder
//
//	settings.json                       lifetimes of the roles
//	metadata/<n>.root.json              every root ever, each signed by the one before and by itself
//	metadata/<n>.targets.json           what is released; append only
//	metadata/<n>.snapshot.json
//	metadata/timestamp.json             the only file that is replaced: it says what is live
//	targets/<program>/<version>/<sha256>.<file>
//
// # Order of writes
//
// A file is written under another name, fsynced and renamed, and what names it is written after it:
// programs, targets, snapshot, timestamp. Whoever reads the folder at any moment, also after the release
// machine lost power, sees the state before or the state after. What was written and never named stays
// as an unused number. A root that revokes release keys comes after a set that is signed by the old and
// the new ones; when the old ones are lost it comes before the timestamp, and in between machines wait.
//
// # Keys
//
// Root keys are offline: each is a file of its own under its own passphrase, and a new root wants a
// threshold of the old and of the new ones. Their holders sign it one by one, each where their key is: a
// Proposal is the file that goes round, and carries all that a holder can know and check. The keys of targets, snapshot and timestamp are files of the
// same kind, kept where releases are made; a stolen one ends with the next root.
package release
