package module

import (
	"fmt"
	"syscall"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Exit is how a program ended.
type Exit struct {
	Code     int            // exit code; -1: it was ended by a signal
	Signal   syscall.Signal // that ended it; 0: none
	TimedOut bool           // its time was over, and it was ended
	Temp     string         // limit of its temporary directory that it exceeded, for which it was ended; "": none
}

// Exit codes with a meaning: those of sysexits.h, and that of agents' hooks for "refused".
const (
	exitUsage    = 64 // the first of sysexits.h
	exitTempFail = 75 // try again later
	exitOSErr    = 71 // a resource of the system is missing
	exitLast     = 78 // the last of sysexits.h
	exitRefused  = 2  // of hooks
)

// OutcomeOf returns what the end of a program means for its event: 0 is done; 64 to 78 refuse it for good, except 71 and
// 75, which like any other code, a signal, a timeout and a limit of the temporary directory fail the attempt: the retry
// policy decides about the next one. In the dialect of hooks 2 refuses, too. The text says what happened; "" if it is done.
func OutcomeOf(exit Exit, dialect Dialect) (outcome sluice.Outcome, dead sluice.Reason, text string) {
	switch {
	case exit.Temp != "":
		return sluice.Failed, "", "the program was ended: its temporary directory " + exit.Temp
	case exit.TimedOut:
		return sluice.Failed, "", "the program did not end within its timeout, and was ended"
	case exit.Signal != 0:
		return sluice.Failed, "", fmt.Sprintf("the program was ended by signal %d (%s)", int(exit.Signal), exit.Signal)
	case exit.Code == 0:
		return sluice.Delivered, "", ""
	}
	text = fmt.Sprintf("the program ended with exit code %d", exit.Code)
	sysexit := exit.Code >= exitUsage && exit.Code <= exitLast && exit.Code != exitTempFail && exit.Code != exitOSErr
	if sysexit || dialect == Hooks && exit.Code == exitRefused {
		return sluice.Refused, sluice.HandlerRefused, text
	}
	return sluice.Failed, "", text
}
