package model

import (
	"github.com/sluice-io/sluice/pkg/sluice"
)

// BuriedLetter is a dead letter with its sequence among the dead letters of all subscriptions.
type BuriedLetter struct {
	sluice.DeadLetter

	LetterSeq uint64
}

// Unplace removes the sequence of the event, without which no tombstone applies to it.
func (d *BuriedLetter) Unplace() {
	d.Seq = 0
	if d.Event != nil {
		d.Event.Seq = 0
	}
}
