// Package knowledge enriches the entries of a namespace, which are its own events and those in its
// mirrors (S3, sections 4 and 5). It gives jobs to workers, stores the embeddings and comparisons
// that they return, and finds the nearest neighbours of an entry, own or mirrored. It does nothing
// in a namespace without a configuration.
//
// Jobs are derived, never enqueued. An entry with content needs an embedding of the configured
// model; an own entry that was embedded needs a comparison with each neighbour that it had at that
// moment. The store has one record for each embedding and comparison, with the state of its job:
// the claim, failed attempts, and finally the result. So a job exists once, even after restarts and
// repetitions, and each step of it is one write by compare-and-set.
//
//	           claim                    complete
//	pending ──────────▶ claimed ──────────────────▶ done: the record has the result
//	   ▲  ▲                │ │
//	   │  └─ lease ended ──┘ │ fail, or the lease ended too often
//	   └─ fail, backoff ─────┤
//	                         ▼
//	                      failed ── retry ──▶ pending
//
// Every replica has a space for each namespace with a configuration: the state in memory that
// follows from the log, the mirrors and the records. Any replica can answer any request. If several
// replicas write the same record, the store accepts the first write.
package knowledge
