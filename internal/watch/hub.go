package watch

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-io/sluice/internal/logtail"
	"github.com/sluice-io/sluice/internal/logtail/ringbuffer"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	again     = 200 * time.Millisecond
	againMost = 5 * time.Second
)

// Why a log cannot be followed any more.
var (
	errBegan    = errors.New("the log was recreated") // the log lost its end, or another log has its name
	errStopping = errors.New("the server is shutting down")
)

// eventWeight is about the size of an event besides its data.
const eventWeight = 512

// readings are the ring's operations on events.
var readings = ringbuffer.Of[sluice.Event]{ //nolint:gochecknoglobals // read-only
	Seq: func(ev sluice.Event) uint64 { return ev.Seq }, Weight: func(ev sluice.Event) int { return len(ev.Data) + eventWeight },
}

// tail reads a namespace's log for watches; it needs no companion.
type tail = logtail.Tail[sluice.Event, struct{}]

// newHubs returns the log readers of an engine. One reader serves all watches of a namespace that
// run here, and ends with the last one. A log that was recreated ends the readers, and the watches
// restart.
func newHubs(log Log, opts Options) (hubs *logtail.Set[sluice.Event, struct{}]) {
	hubs = logtail.New(logtail.Deps[sluice.Event, struct{}]{
		Log: log, Item: func(ev sluice.Event) sluice.Event { return ev }, Beside: func(*tail) struct{} { return struct{}{} },
		Ring: func(last uint64) *ringbuffer.Ring[sluice.Event] {
			return ringbuffer.New(readings, opts.Ring, hubs.Share(opts.RingBytes, opts.AllBytes), last)
		},
		Over: func(ctx context.Context, t *tail) error {
			first, last, err := log.Ends(ctx, t.Namespace)
			switch head := t.Ring().Last(); {
			case sluice.CodeOf(err) == sluice.NotFound:
				return err
			case err == nil && (last < head || first > head+1):
				return errBegan
			}
			return nil // the log reader runs into the error again
		},
		Began: func() error { return errBegan }, Stopping: func() error { return errStopping }, For: "watches", Slog: opts.Log,
	})
	return hubs
}
