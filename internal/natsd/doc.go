// Package natsd runs one NATS server with JetStream inside this process. It knows how the
// server is set up to be safe for us: what is synced to disk when, how many consumers a stream
// may have, that a data directory belongs to one process, who may log in and what they may do then,
// and where the server's log goes.
package natsd
