// Package model holds the types that the server's packages share and that no client needs, such as
// deliveries and their receipts, lanes, the gate's decisions, queries of the store, and the caller
// of a request.
package model
