package model

// Decision is the gate's decision on content that is about to be sent.
type Decision uint8

// The decisions. The zero Decision blocks the content.
const (
	Undecided Decision = iota // cannot be decided now: retry later
	Pass                      // the content may be sent
	Withhold                  // the recipient may not see this event, nor learn that it exists
	Lost                      // access was lost entirely (S0-63)
)
