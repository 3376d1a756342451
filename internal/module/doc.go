// Package module reads modules: directories whose programs run on events (S4-29).
//
//	billing/
//	  events/subscribe.json    which events, and the handler of each
//	  handlers/onPaid.py
//
// A module with anything unclear in it is not loaded; the error has the reason and the line
// (S4-32). Only approved files run: the digest of a module covers all of its files, and the server
// executes a copy of these files.
package module
