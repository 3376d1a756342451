// Package module reads modules: directories whose programs run on events (S4-29).
//
//	billing/
//	  events/subscribe.json    which events, and the handler of each
//	  handlers/onPaid.py
//
// A module that is unclear in any point is not loaded, with the reason and the line (S4-32). What runs is what
// was approved: the digest of a module covers every file of it, and a copy of these files is what is executed.
package module
