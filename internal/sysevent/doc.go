// Package sysevent publishes system events, in which the server reports about itself. Publishing
// them blocks nothing else.
//
// An event is published after the state that it reports was stored, never before; the callers of
// this package store the state first. Changes through the API are published immediately, within a
// short time. Events of the engines go into a bounded queue; events that do not fit are dropped,
// counted and logged. A system event can therefore be lost, but never be false: the state itself,
// the attempts, the dead letters and the ledger are authoritative.
package sysevent
