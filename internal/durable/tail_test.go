package durable_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// racing is a user for whom something happens while its engine begins a tail, once: between the reading of the record and
// that of the end. It goes on as soon as that was told to the tail.
type racing struct {
	*user

	happens func() // nil: nothing, or it is over
	mu      sync.Mutex
	told    uint64 // the last record
}

func (r *racing) Listen(ctx context.Context, ns string, path sluice.Path, each func([]durable.News)) (func(), error) {
	return r.user.Listen(ctx, ns, path, func(all []durable.News) {
		each(all)
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, n := range all {
			if n.Record != nil {
				r.told = n.Seq
			}
		}
	})
}

func (r *racing) Tail(ctx context.Context, ns string, path sluice.Path) (uint64, error) {
	if happens := r.happens; happens != nil {
		r.happens = nil
		happens()
	}
	return r.user.Tail(ctx, ns, path)
}

// knows reports whether the tail has been told of a record.
func (r *racing) knows(revision uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told >= revision
}

// A tail that is over when it has begun is given to no follower again.
func TestTail_RecordChangesWhileItBegins(t *testing.T) {
	t.Parallel()
	s := newSpace(t, 0)
	u, writer := s.user(), s.user()
	r := &racing{user: u}
	u.engine = durable.New(r, time.Now)
	u.create(t, durable.Create{})
	f := u.follow(t, everything)
	r.happens = func() {
		require.NoError(t, writer.engine.Delete(t.Context(), u.key()))
		writer.create(t, durable.Create{})
		_, revision, err := u.Record(t.Context(), s.name, path)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return r.knows(revision) }, patience, time.Millisecond)
	}
	before := u.reads.Load()
	u.settles(t, f)
	require.Nil(t, r.happens)
	require.Less(t, u.reads.Load()-before, int64(50), "it joins another tail at once")
	writer.add(t, "x")
	got, _ := next(t, f)
	require.Equal(t, "x", got)
}
