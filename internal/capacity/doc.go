// Package capacity tracks the free space of the store, decides which writes are refused when it is
// scarce, and detects the recovery of a store that could not write. Part of the store is reserved
// for records: the ledger, permissions, and the state of deliveries. Published events never use it,
// so that a full store can still be administered.
package capacity
