// Package doctor is the command that checks the needs of a server on this machine: its
// configuration, data directory, addresses, store, rights and subscriptions.
package doctor
