// Package doctor implements the command doctor, which checks a server on this machine: its
// configuration, data directory, addresses, store, rights and subscriptions.
package doctor
