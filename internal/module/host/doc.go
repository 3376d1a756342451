// Package host runs the modules of a server: it finds them in directories, runs the programs of those that an admin
// has approved, and stops those that have changed since.
//
// A program runs from a copy of its module's files, which the server makes and verifies when it
// first sees the approval. So exactly the approved files run.
package host
