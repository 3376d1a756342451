// Package namespace creates, changes and deletes namespaces with everything that belongs to them,
// and erases paths. Changes are recorded in the ledger before they are made.
package namespace
