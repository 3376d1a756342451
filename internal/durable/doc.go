// Package durable knows the Durable Streams protocol over the paths of a namespace: what a stream
// is, who may append what to it, where a reader goes on, and what a fork has of its source. What
// is decided is decided by pure functions of a stream's record, the request and the time; the
// engine reads the record, decides, and stores what comes of it in one atomic step, again if
// somebody else was faster. Decision 0016 says how streams lie in the log.
package durable
