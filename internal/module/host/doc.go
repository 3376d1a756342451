// Package host runs the modules of a server: it finds them in directories, runs the programs of those that an admin
// has approved, and stops those that have changed since.
//
// A program runs from a copy of its module's files, which the server makes and verifies when it
// first sees the approval. So exactly the approved files run.
//
// The states of a module on this server (sluice.ModuleState):
//
//	missing: not in modules.dirs      invalid: not readable, or its copy failed
//	           approve                 files differ
//	found ───────────────► approved ────────────────► changed ──┐
//	                       │ ▲  ▲ │                             │
//	               disable │ │  │ │ an event loop: Marked       │
//	                       ▼ │  │ ▼                             │
//	                  disabled  unsafe                          │
//	                         ▲ approve ends each of them ◄──────┘
//
// The files in Options.Copies, which only the server may write:
//
//	sha256-9f86…/billing/…   the copy of a module with that digest, read-only
//	billing.last             the digest of billing that ran last on this server, or was about to
//	.run-…                   the temporary directory of a program that runs
//
// The life of a worker process:
//
//	start ──► {"ready":true} ──► gets events ──► leaves: idle, retired, or over its time ──► ended
//	  │ not within Handler.Ready     │ crashed, or violates the protocol
//	  ▼                              ▼
//	killed ──► pause, then the next  crashes decides about its events (crashes.go); pause
package host
