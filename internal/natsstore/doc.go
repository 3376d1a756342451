// Package natsstore stores the types of package sluice in JetStream: events as messages,
// subscriptions and other state as records, with compare-and-set, and retries of operations with
// lost responses. Types of the NATS client do not leave this package.
//
// Every operation is idempotent, so that a caller without a response may retry: an event is
// published with its ID as Nats-Msg-Id, a record is written over the revision that was read, and
// Provision changes only the differences from the layout in package streams.
package natsstore
