// Package sysevent publishes system events, in which the server reports about itself. Publishing
// them blocks nothing else.
//
// An event is published after the state that it reports was stored, never before; the callers of
// this package store the state first. Changes through the API are published immediately, within a
// short time. Events of the engines go into a bounded queue; events that do not fit are dropped,
// counted and logged. A system event can therefore be lost, but never be false: the state itself,
// the attempts, the dead letters and the ledger are authoritative.
//
// An announcement is in one of these states:
//
//	            ┌─ room ──► queue ──► published ◄───────────────┐
//	announce ───┤                 └─ failed ─┐                  │ each Options.Every,
//	            └─ full ─────────────────────┤                  │ those unknown to the log
//	                                         ├─ stored ──► kept ┴─ failed for good ──► lost
//	                                         └─ other ──► lost, counted by Dropped
//
// An announcement is "stored" if its state can be read again from the store; there is room for a
// bounded number of kept ones. The ids of these events, stored or not, depend only on what they
// report, so that several processes that announce the same publish it once:
//
//	held-<subscription>-<seq>-<ns>          delivery.held
//	dead-<subscription>-<seq>-<reason>[-<replay>]
//	failing-<subscription>-<s>-<percent>    the start of the streak, in Unix seconds
//	breaker-<subscription>-<ns>
//	unsafe-<hash of the producer>-<ns>
//	orphaned-<type>-<count>-<s>             the minute of the first observation
//	namespace-<name>-<revision>[-deleted]
//
// Changes of subscriptions have the ids that were stored with them. All other events have a new id.
// The log ignores a known id only within its dedup window; after that, Known looks for it.
package sysevent
