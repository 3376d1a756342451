// Package durable implements the Durable Streams protocol over the paths of a namespace: the
// definition of streams, the rules of appends, the positions of readers, and the content that a
// fork shares with its source. Decisions are pure functions of a stream's record, the request and
// the time. The engine reads the record, decides, and stores the result atomically; after a
// concurrent change it tries again. Decision 0016 describes the layout of streams in the log.
//
//	record, request, time ──► decision ──► new record, messages ──► stored in one batch
//	   ▲                                                               │
//	   └───────── read again, if the record was changed meanwhile ─────┘
package durable
