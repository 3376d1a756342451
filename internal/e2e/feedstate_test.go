package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// snapshot is a state: the last event of each path, as of a sequence.
type snapshot struct {
	seq   uint64
	paths map[string]string // ids
}

// stateNow reads all pages of a state.
func stateNow(ctx context.Context, api *client.Client, q client.StateQuery) (snapshot, error) {
	s := snapshot{paths: map[string]string{}}
	for {
		page, err := api.State(ctx, "default", q)
		if err != nil {
			return s, err
		}
		if s.seq != 0 && s.seq != page.Seq {
			return s, fmt.Errorf("a page is as of %d, the one before as of %d", page.Seq, s.seq)
		}
		s.seq = page.Seq
		for _, e := range page.Events {
			s.paths[string(e.Path)] = e.ID
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return s, nil
		}
	}
}

// mirrored is a client that keeps a map of what is, out of a state and the feed behind it.
type mirrored struct {
	pattern string
	base    snapshot
	seen    []glance
	samples []snapshot // of the server's own
	last    string
	page    int // of the state
}

// read builds the map: the state in small pages, and then the feed.
func (m *mirrored) read(ctx context.Context, api *client.Client, at place, w wire, begun func()) (err error) {
	defer begun()
	if m.base, err = stateNow(ctx, api, client.StateQuery{Pattern: sluice.Pattern(m.pattern), Limit: m.page}); err != nil {
		return err
	}
	query := url.Values{"pattern": {m.pattern}, "buffer": {"16384"}}
	ended := false
	err = w.read(ctx, at, query, strconv.FormatUint(m.base.seq, 10), func(g glance) bool {
		begun()
		if g.id != "" {
			m.seen = append(m.seen, g)
		}
		ended = g.id == m.last
		return !ended && g.lag == nil
	})
	if err == nil && !ended {
		err = errors.New("it lagged")
	}
	return err
}

// sample asks the server for its state, again and again.
func (m *mirrored) sample(ctx context.Context, api *client.Client, until <-chan struct{}) error {
	for {
		select {
		case <-until:
			if len(m.samples) > 0 { // on a busy machine everything may be published before the first sample
				return nil
			}
		case <-time.After(rand.N(400 * time.Millisecond)):
		}
		s, err := stateNow(ctx, api, client.StateQuery{Pattern: sluice.Pattern(m.pattern), Limit: 1000})
		if err != nil {
			return err
		}
		m.samples = append(m.samples, s)
	}
}

// check holds the map against every sample, as of its sequence.
func (m *mirrored) check(t *testing.T) {
	t.Helper()
	paths, next, at := maps.Clone(m.base.paths), 0, m.base.seq
	for _, s := range m.samples {
		for ; next < len(m.seen) && m.seen[next].seq <= s.seq; next++ {
			require.Greater(t, m.seen[next].seq, at, "in order, and behind the state")
			at = m.seen[next].seq
			paths[m.seen[next].path] = m.seen[next].id
		}
		require.Equal(t, s.paths, paths, "as of %d", s.seq)
	}
}

// A reader of the state and then the feed behind it has what the server has, at every sequence, while much is
// published (S2-86, S2-87, S2-128, S2-129).
func TestState_PlusFeedEqualsLaterState(t *testing.T) {
	t.Parallel()
	clients, rate, paths, lasts := 10, 300, 300, 4*time.Second
	if faulttest.Long() {
		rate, paths, lasts = 1000, 3000, 30*time.Second
	}
	server := &child{dir: t.TempDir(), http: "127.0.0.1:0", nats: "127.0.0.1:0"}
	server.start(t)
	defer func() { _ = server.proc.Process.Kill() }()
	at := place{"http://" + server.http, server.token(t)}
	s := newSource(t, "nats://"+server.nats, rate, func(n int) *nats.Msg {
		p := (n * 7919) % paths
		return msg(fmt.Sprintf("/state/%d/%d", p%4, p), "t", fmt.Appendf(nil, `{"n":%d}`, n))
	})
	ctx, cancel := context.WithTimeout(t.Context(), lasts+10*time.Minute)
	defer cancel()
	require.NoError(t, s.run(ctx, paths/2), "something is there before")

	errs := make([]error, 2*clients)
	var reading, sampling sync.WaitGroup
	over := make(chan struct{})
	all := make([]*mirrored, clients)
	publishing := make(chan error, 1)
	go func() { publishing <- s.run(ctx, rate*int(lasts/time.Second)) }()
	for i := range clients {
		m := &mirrored{pattern: []string{"/state/**", "/state/2/*", "/**", "/state/*/*"}[i%4], last: "last", page: paths / 6}
		all[i] = m
		api := client.New(at.url, at.token)
		http, idle := ownHTTP()
		defer idle()
		api.HTTP = http
		begun := make(chan struct{})
		reading.Go(func() {
			errs[i] = m.read(ctx, api, at, wires()[i%len(wires())], sync.OnceFunc(func() { close(begun) }))
		})
		sampling.Go(func() {
			<-begun
			errs[clients+i] = m.sample(ctx, api, over)
		})
	}
	require.NoError(t, <-publishing)
	close(over)
	sampling.Wait()
	require.NoError(t, s.insist(ctx, s.js[0], msg("/state/2/2", "t", []byte(`{}`)), "last"))
	reading.Wait()
	require.NoError(t, errors.Join(errs...))
	samples, frames := 0, 0
	for _, m := range all {
		m.check(t)
		require.NotEmpty(t, m.samples)
		samples += len(m.samples)
		frames += len(m.seen)
	}
	t.Logf("%d clients, %.0f events a second: equal at %d sampled sequences, over %d frames", clients, s.reached(), samples, frames)
}
