// Package streams is the one truth about what Sluice keeps in JetStream: every stream,
// bucket, consumer and subject, as data. Nothing else names a subject. It knows the lossless
// mapping between paths and subjects and how a pattern becomes a consumer's filter.
package streams
