// Package natsstore knows how our words lie in JetStream: which message an event is, which
// record a subscription, what a lost compare-and-set looks like, and what has to be asked
// twice because a first answer can get lost. Foreign types stop here.
//
// Everything is idempotent, so that whoever got no answer may ask again: an event is
// published with its id as Nats-Msg-Id, a record is written over the revision that was read,
// and Provision changes only what differs from the layout in package streams.
package natsstore
