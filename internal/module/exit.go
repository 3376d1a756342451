package module

import (
	"fmt"
	"syscall"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Exit describes how a program ended.
type Exit struct {
	Code     int            // exit code; -1 if a signal ended it
	Signal   syscall.Signal // the signal that ended it; 0: none
	TimedOut bool           // it exceeded its timeout and was ended
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

// OutcomeOf returns the outcome of an attempt from the end of its program. Exit code 0 delivers the
// event. Codes 64 to 78 except 71 and 75 refuse it for good, and so does 2 in the dialect of hooks.
// All other codes, a signal, a timeout and an exceeded limit of the temporary directory fail the
// attempt, and the retry policy decides about the next one. Text describes a failure or refusal for
// people. dead is set only with Refused; text is "" only with Delivered. The first of these that
// applies counts: an exceeded directory, a timeout, a signal, the exit code.
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
