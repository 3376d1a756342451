// Package capacity tracks the free space of the store, decides which writes are refused when it is
// scarce, and detects the recovery of a store that could not write. Part of the store is reserved
// for records: the ledger, permissions, and the state of deliveries. Published events never use it,
// so that a full store can still be administered.
//
//	bytes left:  all ……………………… reserve …………… reserve/2 …………… 0
//	level:            ample     │     tight     │     scarce
//	refused:          nothing   │     events    │     all additions but deliveries
//
// The level is broken if the disk rejects writes, also with space left. A level is left with one
// and a half times the space at which it was entered.
package capacity
