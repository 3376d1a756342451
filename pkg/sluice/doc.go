// Package sluice holds the words of the system and the pure rules about them: what an
// event, a path, a pattern, a subscription, an attempt and a verdict are, and when one of
// them is invalid. It imports the standard library only and does no I/O.
package sluice
