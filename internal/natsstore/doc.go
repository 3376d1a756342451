// Package natsstore stores the types of package sluice in JetStream: events as messages,
// subscriptions and other state as records that are written with compare-and-set. It retries
// operations without a response. The packages below it use its connection and its JetStream
// context.
//
// Every operation is idempotent. Therefore a caller without a response may retry: an event is
// published with its ID as Nats-Msg-Id, a record is written with the revision that was read, and
// Provision changes only the settings that differ from the layout in package streams.
package natsstore
