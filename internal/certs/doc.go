// Package certs serves a certificate from files that may be replaced while a server runs. It
// knows when to look at them again, and that a mistake in the new ones must not end the service
// that the old ones give.
package certs
