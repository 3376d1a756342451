// Package demo is the command that shows three things: deliveries go on beside a path with a failing receiver, they survive
// kill -9 of the server, and the server explains why an event has not arrived. The server is a process of its own. Each
// printed statement was checked before.
package demo
