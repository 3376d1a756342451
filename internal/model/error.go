package model

import (
	"errors"
	"maps"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// PermissionsUnknown returns the error (Unavailable) of a request with permissions that cannot be
// decided yet: the server has not loaded the grants and access lists, or has lost touch with them.
func PermissionsUnknown() *sluice.Error {
	return sluice.Errorf(sluice.Unavailable, "permissions have not loaded yet; retry")
}

// InBatch returns the error about one event of a batch with its index; the error itself if it is not
// for callers, or of is 1.
func InBatch(i, of int, err error) error {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok || of == 1 || e.Code == sluice.Internal {
		return err
	}
	one := sluice.Errorf(e.Code, "event [%d] of the batch: %s", i, e.Message)
	one.Details = maps.Clone(e.Details)
	return one.With("index", i)
}
