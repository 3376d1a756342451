package host

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/cloudevent"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of the events that a program prints for one event.
const (
	maxPrinted      = 1 << 20 // bytes
	maxPrintedLines = 1000    // events: as many as are stored atomically
	maxShownLine    = 300     // bytes of a refused line that are shown
)

// Publisher publishes the events that a program prints.
type Publisher interface {
	// Publish publishes the events of a handling, all or none, and returns their number. Repeated
	// calls publish each event once: of those with the same name in ID, the first. Size is the
	// number of bytes in which they were printed. Codes Unavailable, Internal and QuotaExceeded are
	// temporary, the others permanent.
	Publish(ctx context.Context, w *model.Handling, of *sluice.Event, events []sluice.Event, size int) (int, error)
	// May returns the permanent error with which publishing one event would fail, nil if there is
	// none.
	May(w *model.Handling, e sluice.Event) error
}

// handlingOf returns the handling of an event by a handler, with the rights of the approver.
func handlingOf(h *module.Handler, sub *sluice.Subscription, ev *sluice.Event) *model.Handling {
	return &model.Handling{
		Module: sub.Module, Handler: h.ID, Subscription: sub.ID, Namespace: ev.Namespace, Event: ev.ID,
		Correlation: cmp.Or(ev.Extensions[sluice.CorrelationID], ev.ID),
		By:          sluice.Caller{Principal: sluice.Principal(sub.CreatedBy), Grant: sub.Grant},
		Publish:     h.Publish, Read: h.Read, Test: ev.Seq == 0,
	}
}

// printed holds the events that a program has printed, in order.
type printed struct {
	events []sluice.Event
	lines  []string // of each
	places []int    // line number of each, from 1
	bytes  int
}

// refusedLine is the error of an event in the output of a program that can never be published.
type refusedLine struct {
	line int // number in the output, or index in an answer, from 1; 0: no particular line
	text string
	err  error
}

// Error returns the line and the reason.
func (r *refusedLine) Error() string {
	if r.line == 0 {
		return "its events were refused: " + r.err.Error()
	}
	return fmt.Sprintf("its event %d was refused: %v: %s", r.line, r.err, clipped(r.text))
}

func (r *refusedLine) Unwrap() error { return r.err }

// publication holds the lines that a program has printed for the event that it handles.
type publication struct {
	by    *model.Handling
	of    *sluice.Event
	lines [][]byte
	hide  func(string) string // masks secrets
}

// publish publishes the events that a program has printed, all or none, and sets the outcome of the
// attempt if that fails. A permanent error refuses the event for good; a temporary one fails the
// attempt, which the retry policy may repeat.
func (h *Host) publish(ctx context.Context, pub publication, a *sluice.Attempt) {
	p, err := pub.read()
	if err == nil && len(p.events) > 0 {
		a.Published, err = h.opts.Publish.Publish(ctx, pub.by, pub.of, p.events, p.bytes)
		if err != nil && !passing(err) {
			err = h.blame(pub.by, p, err)
		}
	}
	switch {
	case err == nil:
	case passing(err):
		a.Outcome, a.Error, a.RetryAfter = sluice.Failed, "its events were not published: "+err.Error(), retryAfter(err)
	default:
		a.Outcome, a.Dead, a.Error = sluice.Refused, sluice.OutputRefused, err.Error()
		if sluice.CodeOf(err) == sluice.EventLoopDetected {
			a.Dead = sluice.Loop
		}
	}
}

// read returns the events in lines. The error is a *refusedLine.
func (pub *publication) read() (p printed, err error) {
	for i, line := range pub.lines {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if len(p.events) == maxPrintedLines {
			return p, &refusedLine{err: sluice.Errorf(sluice.TooLarge, "more than %d events", maxPrintedLines)}
		}
		e, err := cloudevent.ParseLine(line)
		if err == nil {
			err = pub.by.Admits(&e)
		}
		if err != nil {
			return p, &refusedLine{line: i + 1, text: pub.hide(string(line)), err: err}
		}
		e.ID = printedID(pub.by, i)
		p.events, p.lines, p.places, p.bytes = append(p.events, e), append(p.lines, pub.hide(string(line))), append(p.places, i+1), p.bytes+len(line)
	}
	return p, nil
}

// printedID returns the name of the event on a line, from which Publisher derives its ID. It
// depends only on the handling and the line, so a repeated attempt publishes nothing twice, and no
// program can choose the ID of another event.
func printedID(w *model.Handling, line int) string {
	hash := sha256.New()
	for _, part := range []string{w.Subscription, w.Namespace, w.Event, strconv.Itoa(line)} {
		_, _ = fmt.Fprintf(hash, "%d:%s", len(part), part) // a hash does not fail
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// blame adds to an error of publishing the line that caused it, if that is known. The index in the
// details of an error counts the events, not the lines of the output.
func (h *Host) blame(w *model.Handling, p printed, err error) error {
	if at, ok := detail(err, "index"); ok && at < len(p.lines) {
		return &refusedLine{line: p.places[at], text: p.lines[at], err: err}
	}
	for i := range p.events {
		if one := h.opts.Publish.May(w, p.events[i]); one != nil && sluice.CodeOf(one) == sluice.CodeOf(err) {
			return &refusedLine{line: p.places[i], text: p.lines[i], err: one}
		}
	}
	if len(p.events) == 1 {
		return &refusedLine{line: p.places[0], text: p.lines[0], err: err}
	}
	return &refusedLine{err: err}
}

// passing reports whether an error may be temporary.
func passing(err error) bool {
	return slices.Contains([]sluice.Code{sluice.Unavailable, sluice.Internal, sluice.QuotaExceeded}, sluice.CodeOf(err))
}

// retryAfter returns the delay that an error asks for before a retry; 0 if it names none.
func retryAfter(err error) time.Duration {
	seconds, _ := detail(err, "retry_after")
	return time.Duration(seconds) * time.Second
}

// detail returns a number in the details of an error.
func detail(err error, name string) (int, bool) {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok {
		return 0, false
	}
	n, ok := e.Details[name].(int)
	return n, ok
}

// clipped returns the beginning of a line, as text.
func clipped(line string) string {
	line = strings.ToValidUTF8(line, "\ufffd")
	if len(line) > maxShownLine {
		line = strings.ToValidUTF8(line[:maxShownLine], "") + "…"
	}
	return line
}
