package model

import (
	"github.com/sluice-io/sluice/pkg/sluice"
)

// DispatchOutcome returns the dispatch_outcome for the result of an action.
func DispatchOutcome(err error) string {
	if err == nil {
		return sluice.OutcomeOK
	}
	return string(sluice.CodeOf(err))
}
