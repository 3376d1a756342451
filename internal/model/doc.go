// Package model holds the types that the server's packages share and no client needs: deliveries and
// their receipts, lanes, the gate's decisions, queries of the store, the caller of a request.
package model
