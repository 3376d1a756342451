// Package registry knows the life of subscriptions: how one is made from a request, what
// makes two of them the same, what may be changed, and how one ends. Every change is a
// compare-and-set on the stored revision, so any number of registries may work at once.
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
package registry
