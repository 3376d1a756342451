// Package sysevent publishes system events: what the server reports about itself, and on which
// paths. Publishing them blocks nothing else.
//
// An event is published after the state that it reports was stored, never before: callers of this
// package have stored it. Changes through the API are published immediately, within a short time.
// Events of the engines go into a bounded queue; what does not fit is counted and logged. A system
// event can therefore be lost, but never be false: the state itself, the attempts, the dead letters
// and the ledger are authoritative.
package sysevent
