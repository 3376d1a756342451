package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Definitions tells of watches, and removes those that were cancelled.
type Definitions interface {
	Graves

	// Watch tells of every watch, as it is and as it changes, until ctx is done. A nil one is gone.
	Watch(ctx context.Context, change func(key string, w *Stored)) error
}

// Graves removes what is left of watches.
type Graves interface {
	// Delete removes what lies in a watch's place. Code Conflict unless the stored revision is the given one.
	Delete(ctx context.Context, namespace, id string, revision uint64) error
	// Forget removes what is remembered of a watch that is gone.
	Forget(ctx context.Context, namespace, id string) error
}

// Records keeps how far watches have come, by their keys. A revision of 0 stands for "nothing is stored".
type Records interface {
	// Get returns a record and its revision. Code NotFound.
	Get(ctx context.Context, key string) (Record, uint64, error)
	// Put stores it and returns its new revision. Code Conflict unless the stored revision is the given one.
	Put(ctx context.Context, key string, r Record, revision uint64) (uint64, error)
}

// Log is a namespace's events, in their order.
type Log interface {
	// Ends returns the first and the last sequence that is kept, as the leader knows them. Code NotFound.
	Ends(ctx context.Context, namespace string) (first, last uint64, err error)
	// Page returns events behind a place whose paths a pattern may match, and up to where there are no others; that
	// is upTo at least, unless there are more than a page has. Code WindowExceeded if what comes behind the place is
	// no longer kept.
	Page(ctx context.Context, namespace string, pattern sluice.Pattern, after, upTo uint64) (events []sluice.Event, reached uint64, err error)
	// Tail calls each for the events behind a place and then as they come, until it returns an error, ctx ends or
	// there is trouble.
	Tail(ctx context.Context, namespace string, after uint64, each func(sluice.Event) error) error
	// EventAt returns the event with a sequence. Codes NotFound, WindowExceeded, InvalidRequest if there is none (any more).
	EventAt(ctx context.Context, namespace string, seq uint64) (sluice.Event, error)
	// Has reports whether an event with the id lies on a path behind a place.
	Has(ctx context.Context, namespace string, path sluice.Path, id string, after uint64) (bool, error)
	// Announce stores an event of the server's own.
	Announce(ctx context.Context, ev sluice.Event) error
}

// Gate says what those who made watches may read, and when that changes.
type Gate interface {
	Shows(c sluice.Creator, ev *sluice.Event) model.Decision
	// Applied returns what is closed when the answers may be others.
	Applied() (revision uint64, changed <-chan struct{})
}

// Performer publishes the event of an action as its creator might publish it now. Code Unavailable if that is not known, or the log
// cannot be reached.
type Performer interface {
	Perform(ctx context.Context, by sluice.Creator, ev sluice.Event) error
}

// Ownership says which watches this process looks after, by their keys.
type Ownership interface {
	Owns(key string) bool
	// Run has changed called whenever the answer may have changed, until ctx is done. What that returns is closed when
	// nothing is under way any more of what is not owned.
	Run(ctx context.Context, changed func() <-chan struct{}) error
}

// Ports is what an engine works with. All of it is required.
type Ports struct {
	Definitions Definitions
	Records     Records
	Log         Log
	Gate        Gate
	Perform     Performer
	Owns        Ownership
}

// Options is what an engine can do without.
type Options struct {
	Most   int           // readings that are looked at in a second, for each watch; DefaultMost
	Paths  int           // of which something is remembered, for each watch; DefaultPaths
	Labels filter.Labels // of event types; nil: they have none
	Log    *slog.Logger  // slog.DiscardHandler

	Observe Observer // nobody

	Every     time.Duration // how often it is stored how far a watch has come, if nothing else is; 5 s
	Ring      int           // events of each namespace that are kept for watches; 1,024
	RingBytes int           // of each ring, whatever the number of events; 16 MiB
}

// Observer counts what watches do.
type Observer interface {
	Looked(w *sluice.Watch, readings, throttled uint64) // so many more were looked at, and not looked at
	Fired(w *sluice.Watch, outcome string)
}

// nobody counts nothing.
type nobody struct{}

func (nobody) Looked(*sluice.Watch, uint64, uint64) {}
func (nobody) Fired(*sluice.Watch, string)          {}

// Defaults of Options.
const (
	DefaultMost  = 1000
	DefaultPaths = 1024

	defaultEvery     = 5 * time.Second
	defaultRing      = 1024
	defaultRingBytes = 16 << 20
)

func (o Options) filled() Options {
	o.Most = cmp.Or(o.Most, DefaultMost)
	o.Paths = cmp.Or(o.Paths, DefaultPaths)
	o.Every = cmp.Or(o.Every, defaultEvery)
	o.Ring = cmp.Or(o.Ring, defaultRing)
	o.RingBytes = cmp.Or(o.RingBytes, defaultRingBytes)
	if o.Observe == nil {
		o.Observe = nobody{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Record is how far a watch has come.
type Record struct {
	Revision uint64 `json:"revision"` // of the watch; what was remembered of another one is of no use to it

	Kept

	Firing []Firing `json:"firing,omitempty"` // what was decided, and may not be done yet
	Untold []Said   `json:"untold,omitempty"` // what was held back, and may not be told yet
}

// Firing is one time that a watch fires.
type Firing struct {
	Seq uint64    `json:"seq"` // of the reading
	At  time.Time `json:"at"`

	tried
}

// Said is what is to be told of a watch.
type Said struct {
	ID   string          `json:"id"`
	Kind string          `json:"kind"`
	At   time.Time       `json:"at"`
	Seq  uint64          `json:"seq"` // it is told behind it
	Data json.RawMessage `json:"data"`

	tried
}

// tried is what came of tries to do something.
type tried struct {
	unsure bool // it may have been done
	tries  int  // that failed
}
