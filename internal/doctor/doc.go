// Package doctor is the command that checks what a server on this machine needs: its configuration,
// data directory, addresses, store, rights and subscriptions.
package doctor
