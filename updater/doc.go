// Package updater keeps the programs in one app folder at the newest signed release, and brings the last
// good version back when a new one does not do its work.
//
// It owns the app folder and its trust state: which root of trust holds, the newest metadata, what is
// installed, what failed here, and the update that is under way. It does not know what it updates: what is
// restarted, and how it is asked for its health, comes in as Services. It opens no credential, needs no
// privilege, and holds no key. Bad, expired or missing metadata stops updating, with words, and never
// stops what runs.
//
//	<app>/
//	├── <version>/interlock     programs, each version in a folder that is complete before it is named
//	├── current   → <version>   what services start; swapped by one rename
//	├── previous  → <version>   the last that passed its verdict before current
//	├── updater   → <version>   whose program runs the updater: the last that proved itself and its own updater
//	└── trust/
//	    ├── root.json           newest root of trust that was verified
//	    ├── first.root.json     the first of that repository, which tells it from others
//	    ├── metadata/           the newest set that was verified whole
//	    ├── mirrors/<id>/       what each mirror said last
//	    ├── origins.json        which origins belong here, on a machine with several app folders
//	    ├── state.json          highest metadata seen, versions that failed, the update under way
//	    ├── report.json         fleet.UpdateReport, for whoever reports it
//	    └── lock                one updater at a time
//
// An update is a row of steps. Each is written down, durably, before what it does is done, so that the
// next pass goes on where a kill or a power cut ended this one. At every instant current names a complete
// program.
//
//	          a newer target                    downloaded, length and hash right,
//	          for this machine                  it starts when tried
//	current ───────────────────▶ available ──────────────────────────▶ staged
//	   ▲                                                                 │
//	   │                             busy: wait, at most 6 h             │◀─▶ waiting
//	   │                             (30 min for a security release);    │
//	   │                             being started: at most 6 min        │
//	   │                                                                 ▼  current is swapped,
//	   │   every service that was up is up, runs the new version,     watching  services are restarted
//	   ├───has its children, and its heartbeat was accepted ◀────────────┤
//	   │   (previous follows; updater does after a self-test)            │
//	   │                                                                 │
//	   ├───none was up, so nothing is proved: on trial ◀─────────────────┤
//	   │   (previous follows, updater does not; watching begins          │ one of them not, by the deadline
//	   │   when a service is started)                                    ▼
//	   └──────────────── current is swapped back, the version ◀────── reverted
//	                     is never taken again by itself
//
// What is staged or watched is held against the newest releases at each pass: one that was withdrawn is dropped
// or reverted, and a security release does not wait for the end of another update.
//
// The deadline is time in which the updater watches and the machine is awake. A missing heartbeat speaks against
// the new version only when the updater, by itself, reaches the control plane. When it does not, the verdict
// stays open, up to a day, and services go on with the new version.
//
// No proof, no updater: a new version's program runs the updater only after its services were well and after
// it did, for the old one to see, what a pass does short of bringing anything in (SelfTest). Until then the old
// one goes on, and the last version whose services were well is what is gone back to. So no release, however
// broken, keeps the next one out.
//
// The programs beside the main one, such as Nightshift, have versions of their own. They move along with
// current and are brought to their newest version in the same pass, unjudged; so is an app that stands
// elsewhere (Bundle). Neither needs a new version of the other.
//
// Every origin that a machine is enrolled at is only a mirror of the same repository. Each is asked; the
// highest set that is valid wins, and a mirror that fails or lags behind is reported and stops nobody.
package updater
