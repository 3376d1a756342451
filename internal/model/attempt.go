package model

import (
	"github.com/sluice-io/sluice/pkg/sluice"
)

// BuriedLetter is a dead letter with its sequence among the dead letters of all subscriptions.
type BuriedLetter struct {
	sluice.DeadLetter

	LetterSeq uint64
}
