// Package natsd runs a NATS server with JetStream inside this process. It configures the server
// safely: when data is synced to disk, how many consumers a stream may have, the lock of the data
// directory, the logins and their permissions, and the destination of the server's log.
package natsd
