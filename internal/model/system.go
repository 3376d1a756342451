package model

import (
	"github.com/sluice-io/sluice/pkg/sluice"
)

// SystemEvent is an event that the server publishes about itself.
type SystemEvent struct {
	Path sluice.Path
	ID   string
	Kind string
	Data any
}
