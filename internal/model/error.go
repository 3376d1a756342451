package model

import (
	"errors"
	"maps"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// PermissionsUnknown returns the error (Unavailable) for a request about which the server cannot
// decide, because it has not loaded the grants and access lists or has lost its connection to NATS.
func PermissionsUnknown() *sluice.Error {
	return sluice.Errorf(sluice.Unavailable, "permissions have not loaded yet; retry")
}

// InBatch adds the index of an event in a batch of events to the error about it. It returns err
// unchanged if the error is internal, or if the batch has one event.
func InBatch(i, of int, err error) error {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok || of == 1 || e.Code == sluice.Internal {
		return err
	}
	one := sluice.Errorf(e.Code, "event [%d] of the batch: %s", i, e.Message)
	one.Details = maps.Clone(e.Details)
	return one.With("index", i)
}
