// Package demo is the command that runs a server, two receivers and a stream of events, and shows the
// deliveries as they happen.
package demo
