// Package limits knows how much each namespace may: publish (quota.go) and have subscriptions
// (count.go). What it knows it is told, by whoever watches namespaces and subscriptions, so that
// asking it costs no request. It counts for this process alone: with several replicas each has
// its own buckets, and sees the subscriptions that others make a moment later.
package limits
