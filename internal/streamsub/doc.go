// Package streamsub implements the subscriptions of the Durable Streams protocol. A subscription
// keeps durable cursors over streams. Whenever messages follow a cursor, it wakes a worker, by a
// webhook or by a message in a stream.
//
//	         pending            sent, claimed            done, released, lease over
//	idle ───────────────▶ woken ───────────────▶ leased ───────────────────────────▶ idle
//	  ▲                     │ not sent: again, 1 s to 60 s later, as long as the
//	  └─────────────────────┘ lease lasts, then with another generation
//
// Step makes all decisions. It is pure: it takes a subscription, an input, the state of the log and
// the time, and returns the new subscription. The engine stores the result by compare-and-set
// before any action. So all due work is in the record, and after a crash the next replica does the
// same work. Every replica may decide. Only the replica that owns a subscription watches its
// deadlines and sends.
//
// Not every stream has a cursor of its own, which is called a link. Streams that end at or before
// Floor have no new messages. A stream without a link that ends behind Floor is read from Base on.
// Explicit streams have links, and so have streams that are acknowledged beyond that. When Floor
// overtakes such a link, fold removes it.
//
// A lease starts when the wake of a webhook is issued, or when a worker claims a wake. The worker's
// requests extend it. Generations never restart during the life of a subscription. A token is valid
// for one generation of one incarnation.
//
// The cursors of a subscription in a log, and the streams that they decide about:
//
//	0 ───────────── Base ───────────── Floor ──────────────────► end of the log
//	  tail ≤ Floor, no link            done
//	  tail > Floor, no link            pending from Base on
//	  a link                           pending if tail > Acked, wherever Acked is
//
// Moving Floor forward is how links of done streams are removed (fold.go), so that the record stays
// small although the pattern may match any number of streams.
package streamsub
