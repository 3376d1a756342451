// Package quota enforces the publishing quota of each namespace (quota.go), the number of
// subscriptions of a namespace, a principal and a host (count.go), the rate at which callers may
// trigger requests (sends.go), and the agreed request rate of an endpoint (pace.go). The watchers
// of namespaces and subscriptions keep its state current, so that checks cost no request. It counts
// for this process alone: with several replicas, each has its own buckets, and learns of the
// subscriptions of others a moment later.
package quota
