// Package modules serves modules over HTTP: their list, and approval.
package modules
