package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Definitions reports watches, and removes cancelled ones. Watch calls change from one goroutine.
// The keys are those of Ownership.
type Definitions interface {
	Graves

	// Watch calls change with the current record of every watch, then with each change, until ctx
	// is done. A nil record is gone.
	Watch(ctx context.Context, change func(key string, w *Stored)) error
}

// Graves removes the records of watches. Forget succeeds if there is no progress.
type Graves interface {
	// Delete removes a watch's record. Code Conflict unless the stored revision is the given one.
	Delete(ctx context.Context, namespace, id string, revision uint64) error
	// Forget removes the progress of a deleted watch.
	Forget(ctx context.Context, namespace, id string) error
}

// Records stores the progress of watches, by their keys. Revision 0 stands for "nothing is stored".
// Implementations are safe for concurrent use.
type Records interface {
	// Get returns a record and its revision. Code NotFound.
	Get(ctx context.Context, key string) (Record, uint64, error)
	// Put stores a record and returns its new revision. Code Conflict unless the stored revision is
	// the given one.
	Put(ctx context.Context, key string, r Record, revision uint64) (uint64, error)
}

// Log reads a namespace's events, in order. Implementations are safe for concurrent use. The
// returned events are the caller's.
type Log interface {
	// Ends returns the first and the last stored sequence, read from the leader. Code NotFound.
	Ends(ctx context.Context, namespace string) (first, last uint64, err error)
	// Page returns events behind the sequence after, among them all on paths that match the pattern
	// up to the sequence reached. That is at least upTo, unless the page is full. Code
	// WindowExceeded if the next events are no longer stored.
	Page(ctx context.Context, namespace string, pattern sluice.Pattern, after, upTo uint64) (events []sluice.Event, reached uint64, err error)
	// Tail calls each for the events behind a sequence and then for new ones, until each returns an
	// error, ctx ends or the log fails.
	Tail(ctx context.Context, namespace string, after uint64, each func(sluice.Event) error) error
	// EventAt returns the event with a sequence. Codes NotFound, WindowExceeded, InvalidRequest if
	// there is none (any more).
	EventAt(ctx context.Context, namespace string, seq uint64) (sluice.Event, error)
	// Has reports whether an event that is wanted is on a path after the sequence after.
	Has(ctx context.Context, namespace string, path sluice.Path, after uint64, wanted func(*sluice.Event) bool) (bool, error)
	// Announce stores a system event.
	Announce(ctx context.Context, ev sluice.Event) error
	// Secret returns a text of 64 hexadecimal digits that only the servers of this log can derive
	// from a name, always the same one. Code Unavailable.
	Secret(name string) (string, error)
}

// Gate decides which events the creators of watches may read, and signals changes. Implementations
// are safe for concurrent use. Shows does not block: Undecided means that the rights are unknown
// for now.
type Gate interface {
	Shows(c sluice.Creator, ev *sluice.Event) model.Decision
	// Applied returns a channel that is closed when the answers may have changed.
	Applied() (revision uint64, changed <-chan struct{})
}

// Performer publishes the event of an action with the current rights of its creator. Code
// Unavailable if the rights are unknown, or the log cannot be reached. An event with a known id is
// stored once within the dedup window of the log. Any code besides Unavailable and Internal is
// final.
type Performer interface {
	Perform(ctx context.Context, by sluice.Creator, ev sluice.Event) error
}

// Ownership reports which watches this process runs, by their keys. Owns is asked before every
// action, and must be quick.
type Ownership interface {
	supervise.Ownership
	Owns(key string) bool
}

// Deps are an engine's dependencies. All are required.
type Deps struct {
	Definitions Definitions
	Records     Records
	Log         Log
	Gate        Gate
	Perform     Performer
	Owns        Ownership
}

// Options are an engine's optional settings. Zero stands for the default in all numbers. Payer and
// Lost are called from many goroutines.
type Options struct {
	Most   int           // readings per second of each watch; default: DefaultMost
	Paths  int           // paths whose state each watch keeps; default: DefaultPaths
	Labels filter.Labels // of event types; nil: they have none

	Filters *filter.Pool                                     // evaluates expressions; nil: a pool without rates
	Payer   func(by sluice.Creator, namespace string) string // returns the principal that pays for a watch's expression, "" for the operator; nil: the operator pays

	Lost func(namespace string) []sluice.Gap // returns the ranges of a log that are lost to damage; nil: there are none

	Log *slog.Logger // default: slog.DiscardHandler

	Observe Observer // default: none

	Every     time.Duration // interval at which progress without firings is stored; default: 5 s
	Ring      int           // events that a namespace's ring keeps; default: 1,024
	RingBytes int           // maximum of each ring, for any number of events; default: 16 MiB
	AllBytes  int           // maximum of all rings together; default: 64 MiB
}

// Observer counts the work of watches. Implementations are safe for concurrent use and quick.
type Observer interface {
	Looked(w *sluice.Watch, readings, throttled uint64) // readings since the last call that were evaluated, and that were throttled
	Fired(w *sluice.Watch, outcome string)
	Deleted(w *sluice.Watch) // nothing more is counted, unless a watch of its name is created again
}

type nobody struct{}

func (nobody) Looked(*sluice.Watch, uint64, uint64) {}
func (nobody) Fired(*sluice.Watch, string)          {}
func (nobody) Deleted(*sluice.Watch)                {}

// Defaults of Options.
const (
	DefaultMost  = 1000
	DefaultPaths = 1024

	defaultEvery     = 5 * time.Second
	defaultRing      = 1024
	defaultRingBytes = 16 << 20
	defaultAllBytes  = 64 << 20
)

func (o Options) filled() Options {
	o.Most = cmp.Or(o.Most, DefaultMost)
	if o.Filters == nil {
		o.Filters = filter.NewPool(filter.Rates{})
	}
	o.Paths = cmp.Or(o.Paths, DefaultPaths)
	o.Every = cmp.Or(o.Every, defaultEvery)
	o.Ring = cmp.Or(o.Ring, defaultRing)
	o.RingBytes = cmp.Or(o.RingBytes, defaultRingBytes)
	o.AllBytes = cmp.Or(o.AllBytes, defaultAllBytes)
	if o.Observe == nil {
		o.Observe = nobody{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Record is the progress of a watch.
type Record struct {
	Revision uint64 `json:"revision"` // of the watch; a record of another revision is not used

	Kept

	Firing []Firing `json:"firing,omitempty"` // firings that may not have been executed yet
	Untold []Said   `json:"untold,omitempty"` // announcements that may not have been published yet
}

// Firing is one time that a watch fires. It is stored before it is executed, and removed with the
// next record after that.
type Firing struct {
	Seq uint64    `json:"seq"` // of the reading
	At  time.Time `json:"at"`

	id string // of the event, known as soon as the firing is executed

	tried
}

// Said is a pending announcement.
type Said struct {
	ID   string          `json:"id"`
	Kind string          `json:"kind"`
	At   time.Time       `json:"at"`
	Seq  uint64          `json:"seq"` // the announcement is after this sequence
	Data json.RawMessage `json:"data"`

	tried
}

// tried describes previous attempts. It is not stored: after a restart, every firing and
// announcement is unsure.
type tried struct {
	unsure bool // one of them may have succeeded
	tries  int  // number of failed attempts
}
