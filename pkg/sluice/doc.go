// Package sluice defines the types of the system and the pure rules about them: events, paths,
// patterns, subscriptions, attempts and verdicts, and their validation. It imports only the
// standard library and does no I/O.
package sluice
