// Package fanout reads the log of a namespace once for all its subscriptions on this replica, and
// hands each event to those whose pattern matches it (decision 0043). It takes the place of a
// durable consumer for each subscription where there are many.
//
// Subscriptions fall into shards, as leases do. A cursor for each shard says up to where all events
// are settled or parked for all subscriptions that are attached to it. A subscription that cannot
// keep up is detached: it has a position of its own and reads the log by itself until it has caught
// up. So no subscription holds another one up, and one that is idle costs neither a goroutine nor a
// request.
package fanout
