package model

import (
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// maxAction limits the length of an action: it is part of a subject, and a NATS server closes the
// connection of a client that sends a line of more than 4 KiB.
const maxAction = 64

// CheckAction returns an error (InvalidRequest) unless the text is an action, or a prefix of
// actions followed by ".*", of at most 64 bytes.
func CheckAction(action string) error {
	if len(action) > maxAction {
		return sluice.Errorf(sluice.InvalidRequest, "action: %d bytes exceed the limit of %d", len(action), maxAction)
	}
	for word := range strings.SplitSeq(strings.TrimSuffix(action, ".*"), ".") {
		if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") != "" {
			return sluice.Errorf(sluice.InvalidRequest, "action %q: use an action such as %s, or a kind such as subscription.*", action, sluice.ActionSubscriptionPause)
		}
	}
	return nil
}
