// Package module reads modules: directories whose programs run on events (S4-29).
//
//	billing/
//	  events/subscribe.json    which events, and the handler of each
//	  handlers/onPaid.py
//
// A module with anything unclear in it is not loaded; the error has the reason and the line
// (S4-32). Only approved files run: the digest of a module covers all of its files, and the server
// executes a copy of these files.
//
// Reading has no side effects, and a module is not locked: Open notices a manifest that changes
// while it is read, and CopyTo every file that changed since Open.
//
// An event and its answer, of a handler in the mode worker, each a line:
//
//	{"id":"7","attempt":1,"deadline":"…","traceparent":"…","token":"…","event":{…}}
//	{"id":"7","ok":true,"events":[{…}]}
//	{"id":"7","retry":"the bank is closed","after":"10s"}
//	{"id":"7","dead":"no such order"}
package module
