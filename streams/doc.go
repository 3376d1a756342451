// Package streams defines everything that Sluice stores in JetStream: every stream, bucket,
// consumer and subject, as data. No other package names a subject. It also defines the lossless
// mapping between paths and subjects, and the consumer filters of a pattern.
package streams
