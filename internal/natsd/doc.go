// Package natsd runs a NATS server with JetStream inside this process. It configures when data is
// synced to disk, how many consumers a stream may have, the logins and their permissions, and the
// destination of the server's log. It also locks the data directory.
package natsd
