// Package subscription implements the lifecycle of subscriptions: creation from a request,
// detection of duplicates, permitted changes, and deletion. Every change is a compare-and-set on
// the stored revision, so any number of registries may run concurrently. The state suspended, which
// is not drawn, is entered and left like disabled.
//
//	             create
//	               │
//	    pause      ▼      disable
//	paused ◄──── active ────► disabled
//	   │  ────►    │   ◄────     │
//	   │  resume   │    resume   │
//	   └───────────┼─────────────┘
//	               ▼ cancel (the endpoint is gone, S0-49)
//	           cancelled           deleting removes the record from any state
package subscription
