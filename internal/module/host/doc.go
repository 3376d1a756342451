// Package host runs the modules of a server: it finds them in directories, runs the programs of those that an admin
// has approved, and stops those that have changed since.
//
// A program runs from a copy of its module's files, made and verified when the server first sees the approval. So what
// runs is what was approved.
package host
