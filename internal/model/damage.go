package model

import (
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// MissingProblem returns the error (Unavailable) that names the deleted streams and the remedy; nil
// if none is missing.
func MissingProblem(streams []string) *sluice.Error {
	if len(streams) == 0 {
		return nil
	}
	return sluice.Errorf(sluice.Unavailable, "missing in NATS, because it was deleted there: %s. Stop the server and restore a backup (sluice restore), "+
		"or abandon its content with sluice doctor --forget, which recreates it, empty", strings.Join(streams, ", ")).With("missing", streams)
}
