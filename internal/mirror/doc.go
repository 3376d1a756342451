// Package mirror copies the content of namespaces into other namespaces (S3). A mirror pulls
// changes from its source, filters them, checks their labels, and records its progress as a
// watermark.
//
//	source ──observe──► Next ──► entries, gaps and the new place, in one atomic step
//	                     │
//	                     └──► Stop: the mirror is suspended, with the reason
//
// Next is pure: from the state of a mirror and a page of changes, it decides the next state. A page
// comes from the log of a namespace of this server, from another server, or from a bundle. The
// entries of a mirror are never published into its namespace.
//
// The states of a mirror's record:
//
//	          no conflict: settle             Stop, or an operator
//	stored ─────────────────────► active ────────────────────────► suspended
//	  │                             │  ▲                               │  │
//	  │ conflict: discarded         │  └────────── Resume ─────────────┘  │
//	  ▼                             │ Delete                              │ Delete
//	(none) ◄── purged, told ────── gone ◄─────────────────────────────────┘
//
// A record that is stored and not settled for a minute, because its creator crashed, is settled by
// the engine. A gone record stays until its entries, its credential and its system events are done
// with.
//
// A turn of an active mirror, of at most 30 s and Options.Groups steps:
//
//	due ─► observe pages (ahead of the step) ─► step: Hold, Next, tell gaps, Commit ─► … ─► due:
//	       at once if there is more, after the interval with its jitter, or a backoff up to 1 h
//
// A commit compares the revision of the place, so that of two replicas only one stores a step, and
// the other reads the place again (Conflict).
package mirror
