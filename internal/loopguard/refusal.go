package loopguard

import (
	"errors"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// refusal is the error of an event that caused itself.
func refusal(e sluice.Link, f *Found) *sluice.Error {
	err := sluice.Errorf(sluice.EventLoopDetected, "event %q has a chain of more than %d causes, the limit", cut(e.ID), sluice.MaxHops)
	if f.Again {
		err = sluice.Errorf(sluice.EventLoopDetected, "event loop: event %q was caused by an event of the same type %q on the same path %s", cut(e.ID), cut(e.Type), e.Path)
	}
	return err.With("chain", shownAll(f.Chain)).With("hops", f.Hops)
}

// held is the error of a marked producer.
func held(is *sluice.Unsafe) *sluice.Error {
	return sluice.Errorf(sluice.EventLoopDetected,
		"producer %q is marked unsafe since %s, because its event %q caused itself; events of the producer that name a cause are refused until an operator clears the mark",
		is.Producer, is.Since.Format(time.RFC3339), is.Event.ID).
		With("unsafe", true).With("producer", is.Producer).With("since", is.Since).
		With("clear", "sluice producers clear, or DELETE /v1/producers/unsafe/{producer}").
		With("chain", is.Chain).With("hops", is.Hops)
}

// at adds the event's index in its batch to an error.
func at(i, of int, err error) error {
	if e, ok := errors.AsType[*sluice.Error](err); ok && of > 1 && e.Code == sluice.EventLoopDetected {
		e.Message = "event [" + strconv.Itoa(i) + "] of the batch: " + e.Message
		return e.With("index", i)
	}
	return err
}
