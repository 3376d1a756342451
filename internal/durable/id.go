package durable

import "crypto/rand"

// newID returns an id for a stream.
func newID() string { return rand.Text()[:16] }
