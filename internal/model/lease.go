package model

import (
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// leaseOfModule is the prefix of the lease key of a module's subscriptions. Subscription IDs have
// no slash, so it is unambiguous.
const leaseOfModule = "module/"

// LeaseKey returns the lease key of a subscription: its ID, or the key of its module, which only
// some replicas can run.
func LeaseKey(sub *sluice.Subscription) string {
	if sub.Module != "" {
		return LeaseOfModule(sub.Module)
	}
	return sub.ID
}

// LeaseOfModule returns the lease key of a module.
func LeaseOfModule(name string) string { return leaseOfModule + name }

// ModuleOfLease returns the module of a lease key, if it is that of a module.
func ModuleOfLease(key string) (name string, ok bool) { return strings.CutPrefix(key, leaseOfModule) }
