// Package demo implements the command demo, which shows three things: a failing path does not delay
// others, deliveries survive kill -9 of the server, and the server explains why an event has not
// arrived. The server runs in a process of its own. Each statement is checked before it is printed.
package demo
