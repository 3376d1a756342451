package model

import (
	"github.com/sluice-io/sluice/pkg/sluice"
)

// PermissionsUnknown returns the error (Unavailable) of a request with permissions that cannot be
// decided yet: the server has not loaded the grants and access lists, or has lost touch with them.
func PermissionsUnknown() *sluice.Error {
	return sluice.Errorf(sluice.Unavailable, "permissions have not loaded yet; retry")
}
