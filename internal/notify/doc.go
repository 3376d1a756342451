// Package notify signs the notices of wake consumers and of Durable Streams subscriptions, and
// posts them.
package notify
