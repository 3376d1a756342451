//go:build tools

// Package natscli pins the version of the nats command line client that `make natscli` builds.
package natscli

import _ "github.com/nats-io/natscli/nats"
