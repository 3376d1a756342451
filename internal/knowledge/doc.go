// Package knowledge enriches the entries of a namespace, its own events and those that its mirrors
// have, with the help of workers: it gives them jobs, keeps the embeddings and comparisons that they
// return, and finds neighbours across the boundary of the namespace (S3, sections 4 and 5). It does
// nothing in a namespace without a configuration.
//
// Jobs are derived, never enqueued. An entry with content needs an embedding of the configured model;
// an own entry that was embedded needs a comparison with each of its neighbours of that moment. What is
// stored is the record of an embedding or of a comparison, which has the state of its job: its claim,
// its failed attempts, at last its result. So a job exists once, also after restarts and repetitions,
// and each step of it is one write by compare-and-set.
//
//	           claim                    complete
//	pending ──────────▶ claimed ──────────────────▶ done: the record has the result
//	   ▲  ▲                │ │
//	   │  └─ lease ended ──┘ │ fail, or the lease ended too often
//	   └─ fail, backoff ─────┤
//	                         ▼
//	                      failed ── retry ──▶ pending
//
// Every replica has a space for each namespace with a configuration: what follows from the log, the
// mirrors and the records, in memory. Any of them answers any request; the store decides who was first.
package knowledge
