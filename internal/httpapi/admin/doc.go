// Package admin serves the administration of a server over HTTP: the ledger, keys, settings, the
// store, unsafe producers and profiles of the process.
package admin
