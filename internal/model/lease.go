package model

import (
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// leaseOfModule begins the lease key of a module's subscriptions. No ID of a subscription has a slash.
const leaseOfModule = "module/"

// LeaseKey returns the key by which leases know a subscription: its ID, or its module, which only some replicas can run.
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
