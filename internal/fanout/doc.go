// Package fanout reads the log of a namespace once for all its subscriptions on this replica, and
// hands each event to those whose pattern matches it (decision 0043). It replaces the durable
// consumer of each subscription in namespaces with many subscriptions.
//
// Subscriptions are divided into shards, as leases are. The cursor of a shard is the sequence up to
// which all events are settled or parked for all subscriptions that are attached to it. A
// subscription that cannot keep up is detached: it gets a position of its own, and reads the log by
// itself until it has caught up. So no subscription delays another one, and an idle subscription
// costs neither a goroutine nor a request.
package fanout
