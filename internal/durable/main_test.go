package durable_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// space is a namespace whose streams any number of engines serve.
type space struct {
	store storetest.Rooms
	js    jetstream.JetStream
	name  string
}

func newSpace(t *testing.T, maxAge time.Duration) *space {
	t.Helper()
	return spaceOn(t, natsstore.Options{Conn: natstest.New(t)}, maxAge)
}

func spaceOn(t *testing.T, opts natsstore.Options, maxAge time.Duration) *space {
	t.Helper()
	store := storetest.Connect(t, opts)
	require.NoError(t, store.Provision(t.Context()))
	var dial []nats.Option
	if opts.Conn != nil {
		dial = append(dial, nats.InProcessServer(opts.Conn))
	}
	s := &space{store: store, js: natstest.Dial(t, opts.URL, dial...), name: "space"}
	_, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: s.name, Retention: sluice.Retention{MaxAge: sluice.Duration(maxAge)}})
	require.NoError(t, err)
	return s
}

// user is an engine and who uses it.
type user struct {
	engine *durable.Engine
	space  *space
	ahead  time.Duration // of the clock
	lose   bool          // the answers of commits
	reads  atomic.Int64  // of records, ends and events

	mu     sync.Mutex
	writes map[string]int
}

func (s *space) user() *user {
	u := &user{space: s, writes: map[string]int{}}
	u.engine = durable.New(u, func() time.Time { return time.Now().Add(u.ahead) })
	return u
}

// run has the engine write records until the returned function is called.
func (u *user) run(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := u.engine.Run(ctx, slog.New(slog.NewTextHandler(t.Output(), nil))); err != nil {
			t.Error(err)
		}
	})
	end = func() { cancel(); running.Wait() }
	t.Cleanup(end)
	return end
}

func (u *user) Record(ctx context.Context, ns string, path sluice.Path) ([]byte, uint64, error) {
	u.reads.Add(1)
	return u.space.store.Log.PathRecord(ctx, ns, path)
}

func (u *user) Tail(ctx context.Context, ns string, path sluice.Path) (uint64, error) {
	u.reads.Add(1)
	return u.space.store.Log.PathTail(ctx, ns, path)
}

func (u *user) LastSeq(ctx context.Context, ns string) (uint64, error) {
	return u.space.store.Log.LastSeq(ctx, ns)
}

func (u *user) SeqAt(ctx context.Context, ns string, at time.Time) (uint64, error) {
	return u.space.store.Log.SeqAt(ctx, ns, at)
}

func (u *user) Events(ctx context.Context, ns string, path sluice.Path, after, upTo uint64) ([]sluice.Event, error) {
	u.reads.Add(1)
	return u.space.store.Log.PathEvents(ctx, ns, path, after, upTo)
}

func (u *user) Notes(ctx context.Context, ns string, path sluice.Path, after, upTo uint64) ([][]byte, uint64, error) {
	return u.space.store.Log.PathNotes(ctx, ns, path, after, upTo)
}

func (u *user) Listen(ctx context.Context, ns string, path sluice.Path, each func([]durable.News)) (func(), error) {
	return u.space.store.Log.ListenPath(ctx, ns, path, func(all []eventlog.PathNews) {
		news := make([]durable.News, len(all))
		for i, n := range all {
			news[i] = durable.News(n)
		}
		each(news)
	})
}

func (u *user) Gaps(string) []sluice.Gap { return nil }

func (u *user) MaxData() int { return u.space.store.Log.MaxData() }

var errLost = errors.New("the answer was lost")

func (u *user) Commit(ctx context.Context, c durable.Commit) (uint64, error) {
	commit := eventlog.PathCommit{Events: c.Events, Fence: eventlog.PathFence(c.Fence), Note: c.Note}
	for _, change := range c.Changes {
		put := eventlog.PathPut{PathFence: eventlog.PathFence(change.Fence), Data: change.Data, For: eventlog.RecordForever, Tidy: change.Tidy}
		switch change.Keep {
		case durable.KeepForever:
		case durable.KeepFor:
			put.For = change.For
		case durable.KeepAsEvents:
			put.For = eventlog.RecordAsEvents
		}
		commit.Puts = append(commit.Puts, put)
	}
	u.count(c)
	last, err := u.space.store.Log.CommitPaths(ctx, c.Namespace, commit)
	if sluice.CodeOf(err) == sluice.Conflict {
		err = fmt.Errorf("%w: %w", durable.ErrRace, err)
	}
	if err == nil && u.lose {
		return 0, errLost
	}
	return last, err
}

// count says what commits there were.
func (u *user) count(c durable.Commit) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case len(c.Note) > 0:
		u.writes["note"]++
	case len(c.Events) > 0 && len(c.Changes) > 0:
		u.writes["batch"]++
	case len(c.Events) > 0:
		u.writes["plain"]++
	default:
		u.writes["record"]++
	}
}

func (u *user) counted(kind string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.writes[kind]
}

const (
	path  sluice.Path = "/s"
	plain string      = "text/plain"
)

func (u *user) key() durable.Key { return durable.Key{Namespace: u.space.name, Path: path} }

func (u *user) create(t *testing.T, c durable.Create) {
	t.Helper()
	if c.ContentType == "" {
		c.ContentType = plain
	}
	_, _, err := u.engine.Create(t.Context(), u.key(), c)
	require.NoError(t, err)
}

func (u *user) append(ctx context.Context, a durable.Append) (durable.Appended, error) {
	if a.ContentType == "" {
		a.ContentType = plain
	}
	return u.engine.Append(ctx, u.key(), a)
}

// produce appends as a producer does: the data says whose it is and its how manieth.
func (u *user) produce(ctx context.Context, id string, epoch, seq int64) (durable.Appended, error) {
	return u.append(ctx, durable.Append{Body: fmt.Appendf(nil, "%s:%d:%d,", id, epoch, seq), Producer: &durable.Claim{ID: id, Epoch: epoch, Seq: seq}})
}

// is requires what becomes of a producer's append.
// accepted produces a number of messages, from 0 on, which are accepted.
func (u *user) accepted(t *testing.T, n int64) {
	t.Helper()
	for seq := range n {
		u.is(t, durable.Accepted, "p", 0, seq)
	}
}

func (u *user) is(t *testing.T, want durable.Verdict, id string, epoch, seq int64) {
	t.Helper()
	done, err := u.produce(t.Context(), id, epoch, seq)
	if want == durable.Accepted || want == durable.Duplicate {
		require.NoError(t, err)
	} else {
		require.Error(t, err)
	}
	require.Equal(t, want, done.Verdict, "%s %d %d: %v", id, epoch, seq, err)
}

// text returns what is in the stream.
func (u *user) text(t *testing.T) string {
	t.Helper()
	var text []byte
	for from := (durable.Place{}); ; {
		var page durable.Page
		read := retried(t, func() (err error) {
			page, err = u.engine.Read(t.Context(), u.key(), from, everything)
			return err
		})
		require.True(t, read)
		for _, m := range page.Messages {
			text = append(text, m...)
		}
		if page.UpToDate {
			return string(text)
		}
		from.After = page.Next
	}
}

func purge(t *testing.T, stream jetstream.Stream, subject string) {
	t.Helper()
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(subject)))
}

// purgeTo removes what lies before a sequence.
func purgeTo(t *testing.T, stream jetstream.Stream, subject string, before uint64) {
	t.Helper()
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(before)))
}
