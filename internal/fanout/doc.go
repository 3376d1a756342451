// Package fanout reads the log of a namespace once for all its subscriptions on this replica, and
// hands each event to those whose pattern matches it (decision 0043). It replaces the durable
// consumer of each subscription in namespaces with many subscriptions.
//
// Subscriptions are divided into shards, as leases are. The cursor of a shard is the sequence up to
// which all events are settled or parked for all subscriptions that are attached to it. A
// subscription that cannot keep up is detached: it gets a position of its own, and reads the log by
// itself until it has caught up. So no subscription delays another one, and an idle subscription
// costs neither a goroutine nor a request.
//
// The states of a member, a subscription that this replica serves:
//
//	            its queue overflows, its oldest delivery is
//	            slow, or it settles nothing while others wait
//	attached ──────────────────────────────────────────────► detaching
//	   ▲    the shard's cursor accounts for it                  │ its position is stored
//	   │                                                        ▼
//	joining ◄──────────────────────────────────────────── own position
//	         it has caught up with the shared reader
//
// Until the new position is stored, the cursor of the shard does not pass the oldest event that the
// member has not settled: a crash in between repeats deliveries, and loses none.
package fanout
