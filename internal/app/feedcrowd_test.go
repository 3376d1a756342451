package app_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// crowded is a reader that comes and goes: what it saw, and what it was told that it missed.
type crowded struct {
	pattern sluice.Pattern
	wanted  []uint64      // sequences of all events that it wants
	begun   chan struct{} // closed once it has
	after   uint64        // the last that it saw, or behind which it began
	resume  string
	lag     *client.FeedLag // told, and nothing came yet
	lags    int
	done    bool // it saw the last event of all
}

// between returns how many events it wants lie between two sequences.
func (r *crowded) between(after, before uint64) int {
	from, _ := slices.BinarySearch(r.wanted, after+1)
	to, _ := slices.BinarySearch(r.wanted, before)
	return max(0, to-from)
}

// took is an event that a reader got, and what it had been told before.
type took struct {
	after, seq uint64
	lag        *client.FeedLag
}

// check returns what is wrong with an event that came behind another.
func (r *crowded) check(e took) error {
	missed := r.between(e.after, e.seq)
	switch {
	case e.seq <= e.after:
		return fmt.Errorf("%d came behind %d", e.seq, e.after)
	case e.lag == nil && missed > 0:
		return fmt.Errorf("%d are missing between %d and %d, and nobody said so", missed, e.after, e.seq)
	case e.lag != nil && (e.lag.Missed != missed || e.lag.Oldest != e.seq):
		return fmt.Errorf("%d are missing between %d and %d, and it was told %+v", missed, e.after, e.seq, *e.lag)
	}
	return nil
}

// visit reads for a while, at a pace, and returns what it took.
func (r *crowded) visit(ctx context.Context, api *client.Client, most int) (all []took, err error) {
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	dawdles := rand.IntN(2) == 0
	r.lag = nil // it was told behind the place where it goes on
	for item, err := range api.Feed(ctx, "default", client.FeedQuery{Pattern: r.pattern, Since: r.resume, Buffer: 1 + rand.IntN(20)}) {
		switch {
		case err != nil:
			return all, err
		case item.Subscribed != nil && r.resume == "":
			r.after = *item.Subscribed
			close(r.begun)
		case item.Away != nil:
			return all, item.Away
		case item.Lagged != nil:
			r.lag = item.Lagged
			r.lags++
		case item.Event != nil:
			all = append(all, took{r.after, item.Seq, r.lag})
			r.after, r.lag = item.Seq, nil
			if r.done = item.Event.ID == "end"; r.done || len(all) >= most {
				r.resume = item.Resume
				return all, nil
			}
			for n := 0; dawdles && len(all)%100 == 50 && n < 100; n++ {
				<-pause.C
			}
		}
		r.resume = item.Resume
	}
	return all, nil
}

// Readers that come, go, lag and come back while much is published: each sees every event that it wants once and in order, or is
// told exactly how many it missed (issue "live feeds", the bar).
func TestACrowdOfReadersMissesNothingUntold(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Feed.Ring = 32 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const publishers, batches, size, readers = 4, 40, 20, 24
	patterns := []sluice.Pattern{"/crowd/**", "/crowd/0/*", "/crowd/*/x", "/**"}
	var mu sync.Mutex
	var stored []sluice.Stored
	var publishing, reading sync.WaitGroup
	crowd, errs := make([]*crowded, readers), make([]error, readers+publishers)
	taken := make([][]took, readers)
	for i := range crowd {
		r := &crowded{pattern: patterns[i%len(patterns)], begun: make(chan struct{})}
		if i >= readers/2 {
			r.resume = "0"
			close(r.begun)
		}
		crowd[i] = r
		reading.Go(func() {
			api, idle := ownClient(s)
			defer idle()
			for ctx.Err() == nil && !r.done {
				all, err := r.visit(ctx, api, 50+rand.IntN(600))
				taken[i] = append(taken[i], all...)
				if errs[i] = err; err != nil {
					return
				}
			}
			errs[i] = ctx.Err()
		})
	}
	for _, r := range crowd { // without since, it begins with an event that is still to come
		<-r.begun
	}
	for p := range publishers {
		publishing.Go(func() {
			all, err := publishCrowd(ctx, s, p, batches, size)
			mu.Lock()
			stored = append(stored, all...)
			mu.Unlock()
			errs[readers+p] = err
		})
	}
	publishing.Wait()
	all, err := s.api.Publish(ctx, "default", sluice.Event{ID: "end", Path: "/crowd/0/x", Type: "t", Data: []byte("1")})
	require.NoError(t, err)
	stored = append(stored, all...)
	reading.Wait()
	require.NoError(t, errors.Join(errs...))
	lags := 0
	for i, r := range crowd {
		r.checkAll(t, stored, taken[i])
		require.Equal(t, all[0].Seq, r.after)
		lags += r.lags
	}
	require.Positive(t, lags)
	t.Logf("%d events, %d readers, %d times one lagged", len(stored), readers, lags)
}

// publishCrowd publishes what one of several publishers has to say.
func publishCrowd(ctx context.Context, s *running, p, batches, size int) (stored []sluice.Stored, err error) {
	for b := range batches {
		events := make([]sluice.Event, size)
		for i := range events {
			events[i] = sluice.Event{
				ID: fmt.Sprintf("%d-%d-%d", p, b, i), Path: sluice.Path(fmt.Sprintf("/crowd/%d/%s", p, []string{"x", "y"}[i%2])), Type: "t",
				Data: []byte(`"` + strings.Repeat("x", 4<<10) + `"`),
			}
		}
		all, failed := s.api.Publish(ctx, "default", events...)
		stored, err = append(stored, all...), errors.Join(err, failed)
	}
	return stored, err
}

// checkAll holds what a reader took against what was stored.
func (r *crowded) checkAll(t *testing.T, stored []sluice.Stored, taken []took) {
	t.Helper()
	for _, e := range stored {
		if r.pattern.Match(e.Path) {
			r.wanted = append(r.wanted, e.Seq)
		}
	}
	slices.Sort(r.wanted)
	for _, e := range taken {
		require.NoError(t, r.check(e), "a reader of %s", r.pattern)
	}
}

// ownClient returns a client with connections of its own.
func ownClient(s *running) (*client.Client, func()) {
	transport := &http.Transport{}
	api := client.New(s.at.HTTP, s.token)
	api.HTTP = &http.Client{Transport: transport}
	return api, transport.CloseIdleConnections
}
