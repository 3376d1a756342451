package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/streams"
)

// entry is an event as the log has it.
type entry struct {
	seq        uint64
	id         string
	path, kind string
	body       []byte
}

// logOf reads what is in a log, but for what the server says of itself.
func logOf(t *testing.T, js jetstream.JetStream) (all []entry) {
	t.Helper()
	consumer, err := js.OrderedConsumer(t.Context(), jsNames(t).EventsStream("default"), jetstream.OrderedConsumerConfig{})
	require.NoError(t, err)
	info, err := consumer.Info(t.Context())
	require.NoError(t, err)
	msgs, err := consumer.Messages()
	require.NoError(t, err)
	defer msgs.Stop()
	for left := info.NumPending; left > 0; left-- {
		msg, err := msgs.Next(jetstream.NextMaxWait(patience))
		require.NoError(t, err)
		meta, err := msg.Metadata()
		require.NoError(t, err)
		subject := strings.TrimPrefix(msg.Subject(), jsNames(t).EventsPrefix()+"default.")
		if strings.HasPrefix(subject, "_sys.") {
			continue
		}
		all = append(all, entry{
			seq: meta.Sequence.Stream, id: msg.Headers().Get(nats.MsgIdHdr), path: "/" + strings.ReplaceAll(subject, ".", "/"),
			kind: msg.Headers().Get(streams.HeaderType), body: msg.Data(),
		})
	}
	return all
}

// want is what a reader asks for, the same as the test understands it, and an event of that kind, which is
// published last.
type want struct {
	query string
	is    func(e entry) bool
	last  *nats.Msg
}

func (w want) values() url.Values {
	query, err := url.ParseQuery(w.query)
	if err != nil {
		panic(err) // the test wrote it
	}
	return query
}

// of returns the sequences that are wanted, in order.
func (w want) of(log []entry) (seqs []uint64) {
	for _, e := range log {
		if w.is(e) {
			seqs = append(seqs, e.seq)
		}
	}
	return seqs
}

// took is an event that a reader got, and what it had been told before.
type took struct {
	after, seq uint64 // the one before, or behind which it began
	lag        *client.FeedLag
}

// journal is what a reader saw, over all its connections.
type journal struct {
	after  uint64 // the last event, or behind which it began
	begun  bool
	resume string
	lag    *client.FeedLag // told, and nothing came yet
	lags   int
	taken  []took
	last   string // the id of what is published last for it
	ended  bool   // that came
}

// note enters a frame.
func (j *journal) note(g glance) {
	switch {
	case g.began != nil && !j.begun:
		j.after, j.begun = *g.began, true
		j.resume = cmp.Or(j.resume, strconv.FormatUint(j.after, 10))
	case g.began != nil:
		j.lag = nil // it goes on where it was before it was told
	case g.lag != nil:
		j.lag = g.lag
		j.lags++
		return // a reader that resumes here gets what was missed
	case g.id != "":
		j.taken = append(j.taken, took{j.after, g.seq, j.lag})
		j.after, j.lag = g.seq, nil
		j.ended = g.id == j.last
	}
	if g.resume != "" {
		j.resume = g.resume
	}
}

// anew forgets where the reader was: it begins with what is to come.
func (j *journal) anew() { j.begun, j.resume, j.lag = false, "", nil }

// check returns what is wrong with what was taken, by the sequences that were wanted.
func (j *journal) check(wanted []uint64) error {
	for _, e := range j.taken {
		from, _ := slices.BinarySearch(wanted, e.after+1)
		to, isWanted := slices.BinarySearch(wanted, e.seq)
		missed := to - from
		switch {
		case !isWanted:
			return fmt.Errorf("%d came, and is not wanted", e.seq)
		case e.seq <= e.after:
			return fmt.Errorf("%d came behind %d", e.seq, e.after)
		case e.lag == nil && missed > 0:
			return fmt.Errorf("%d are missing between %d and %d, and the feed did not say so", missed, e.after, e.seq)
		case e.lag != nil && (e.lag.Missed != missed || e.lag.Oldest != e.seq):
			return fmt.Errorf("%d are missing between %d and %d, and it was told %+v", missed, e.after, e.seq, *e.lag)
		}
	}
	if !j.ended {
		return fmt.Errorf("it ended behind %d", j.after)
	}
	return nil
}

// follow reads until the last published event, through any loss of connections.
func (j *journal) follow(ctx context.Context, w wire, at place, query url.Values, begun func()) error {
	for ctx.Err() == nil {
		err := w.read(ctx, at, query, j.resume, func(g glance) bool {
			j.note(g)
			if g.began != nil {
				begun()
			}
			return !j.ended
		})
		if j.ended {
			return err
		}
		wait(ctx, 20*time.Millisecond)
	}
	return fmt.Errorf("%s, behind %d: %w", w.name, j.after, context.Cause(ctx))
}

// wait waits for a while, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// source publishes at a rate, over some connections, and does not give up on any event.
type source struct {
	events string // begins the subjects
	js     []jetstream.JetStream
	rate   int // a second
	make   func(n int) *nats.Msg
	stored atomic.Int64 // acknowledged
	sent   int          // before the run that is under way
	took   time.Duration
}

// newSource returns a source of a server. make returns the n-th event; its id is added.
func newSource(t *testing.T, at string, rate int, make func(n int) *nats.Msg) *source {
	t.Helper()
	s := &source{events: namesAt(at).EventsPrefix(), rate: rate, make: make}
	for range 4 {
		s.js = append(s.js, dial(t, at, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true)))
	}
	return s
}

// run publishes until ctx ends or n events were sent; what is late is made up for. It returns when all are
// acknowledged.
func (s *source) run(ctx context.Context, n int) error {
	const each = 16 // at once on a connection
	begun, lanes := time.Now(), each*len(s.js)
	var all sync.WaitGroup
	errs := make([]error, lanes)
	for lane := range lanes {
		all.Go(func() {
			for i := lane; i < n && ctx.Err() == nil; i += lanes {
				wait(ctx, time.Until(begun.Add(time.Duration(i)*time.Second/time.Duration(s.rate))))
				errs[lane] = errors.Join(errs[lane], s.publish(context.WithoutCancel(ctx), s.js[lane%len(s.js)], s.sent+i))
			}
		})
	}
	all.Wait()
	s.sent += n
	s.took = time.Since(begun)
	return errors.Join(errs...)
}

// publish publishes an event until it is acknowledged.
func (s *source) publish(ctx context.Context, js jetstream.JetStream, n int) error {
	msg := s.make(n)
	return s.insist(ctx, js, msg, fmt.Sprintf("n-%d", n))
}

func (s *source) insist(ctx context.Context, js jetstream.JetStream, msg *nats.Msg, id string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	msg = &nats.Msg{Subject: s.events + msg.Subject, Header: msg.Header, Data: msg.Data}
	for ctx.Err() == nil {
		limit, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := js.PublishMsg(limit, msg, jetstream.WithMsgID(id))
		cancel()
		if err == nil {
			s.stored.Add(1)
			return nil
		}
		wait(ctx, 10*time.Millisecond)
	}
	return fmt.Errorf("publish %s: %w", id, context.Cause(ctx))
}

// reached returns how many events a second were acknowledged.
func (s *source) reached() float64 { return float64(s.stored.Load()) / s.took.Seconds() }

// msg returns an event for a source.
func msg(path, kind string, body []byte) *nats.Msg {
	m := nats.NewMsg("default." + strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "."))
	m.Header.Set(streams.HeaderType, kind)
	m.Data = body
	return m
}
