package eventlog

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/streams"
)

// tray is a store of messages that notes what is stored together. It is held up, and may refuse messages.
type tray struct {
	hold    chan struct{} // closed: nothing is held up
	refuses error         // of every group with a message that is called "bad"
	silent  error         // the answer to the first group

	mu     sync.Mutex
	stored []string // each group
	tries  int
	last   uint64
}

func (s *tray) store(ctx context.Context, _ string, msgs []*nats.Msg) (uint64, error) {
	select {
	case <-s.hold:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var subjects []string
	for _, m := range msgs {
		subjects = append(subjects, m.Subject)
	}
	group := strings.Join(subjects, " ")
	if s.tries++; s.tries == 1 && s.silent != nil {
		return 0, s.silent
	}
	if strings.Contains(group, "bad") && s.refuses != nil {
		return 0, s.refuses
	}
	s.stored = append(s.stored, group)
	s.last += uint64(len(msgs))
	return s.last, nil
}

// asked is the answer that a caller gets.
type asked struct {
	last uint64
	err  error
}

// ask commits requests, each of which waits before the next one comes, and lets the store go on then.
func ask(t *testing.T, s *tray, leave int, requests ...[]*nats.Msg) []asked {
	t.Helper()
	c := newCommitter(s.store)
	s.hold = make(chan struct{})
	got := make([]asked, len(requests))
	var callers sync.WaitGroup
	for i, msgs := range requests {
		ctx, cancel := context.WithCancel(t.Context())
		callers.Go(func() { got[i].last, got[i].err = c.commit(ctx, "ns", msgs) })
		synctest.Wait()
		if i == leave {
			cancel()
			synctest.Wait()
		}
		defer cancel()
	}
	close(s.hold)
	callers.Wait()
	synctest.Wait()
	require.Empty(t, c.waiting, "nothing is kept of a namespace without requests")
	return got
}

func msgsOf(subjects string) (msgs []*nats.Msg) {
	for subject := range strings.FieldsSeq(subjects) {
		msgs = append(msgs, &nats.Msg{Subject: subject})
	}
	return msgs
}

const none = -1

func TestCommitter_ConcurrentRequestsAreOneGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s tray
		got := ask(t, &s, none, msgsOf("a1 a2"), msgsOf("b1 b2 b3"), msgsOf("c1 c2"))
		require.Equal(t, []string{"a1 a2", "b1 b2 b3 c1 c2"}, s.stored)
		require.Equal(t, []asked{{2, nil}, {5, nil}, {7, nil}}, got)
	})
}

// What is refused because of one request is stored without it, and only its caller hears of it.
func TestCommitter_RefusalIsOfOneRequest(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{&jetstream.APIError{Code: 400, ErrorCode: codeBatchDuplicate}, &jetstream.APIError{Code: 503, ErrorCode: 10076}, nats.ErrMaxPayload} {
		synctest.Test(t, func(t *testing.T) {
			s := tray{refuses: refusal}
			got := ask(t, &s, none, msgsOf("a1 a2"), msgsOf("b1 b2"), msgsOf("bad1 bad2"), msgsOf("c1 c2"))
			require.ElementsMatch(t, []string{"a1 a2", "b1 b2", "c1 c2"}, s.stored)
			require.ErrorIs(t, got[2].err, refusal)
			require.NoError(t, errors.Join(got[0].err, got[1].err, got[3].err))
			require.ElementsMatch(t, []uint64{4, 6}, []uint64{got[1].last, got[3].last})
		})
	}
}

func TestCommitter_RefusalOfALoneRequestIsItsAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := tray{refuses: nats.ErrMaxPayload}
		require.Equal(t, []asked{{0, nats.ErrMaxPayload}}, ask(t, &s, none, msgsOf("bad1 bad2")))
		require.Equal(t, 1, s.tries)
	})
}

// A store that does not answer is waited for once: those behind do not wait for one answer after the other.
func TestCommitter_SilenceReleasesWaitingRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := tray{silent: nats.ErrTimeout}
		got := ask(t, &s, none, msgsOf("a1 a2"), msgsOf("b1 b2"), msgsOf("c1 c2"))
		require.ErrorIs(t, got[0].err, nats.ErrTimeout)
		require.NoError(t, errors.Join(got[1].err, got[2].err))
		require.ElementsMatch(t, []string{"b1 b2", "c1 c2"}, s.stored, "each by itself")
	})
}

// The request of a caller that left is not stored; if it was on its way, it is, and so are those behind it.
func TestCommitter_ACallerThatLeavesTakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	for leave, want := range [][]string{{"a1 a2", "b1 b2 c1 c2"}, {"a1 a2", "c1 c2"}} {
		synctest.Test(t, func(t *testing.T) {
			var s tray
			got := ask(t, &s, leave, msgsOf("a1 a2"), msgsOf("b1 b2"), msgsOf("c1 c2"))
			require.ErrorIs(t, got[leave].err, context.Canceled)
			require.NoError(t, got[2].err)
			require.Equal(t, want, s.stored)
		})
	}
}

// JetStream takes a limited number of messages in a batch, and a cluster holds them in memory.
func TestCommitter_GroupsAreBounded(t *testing.T) {
	t.Parallel()
	many := func(n int) []*nats.Msg { return msgsOf(strings.Repeat("m ", n)) }
	large := func(n int) []*nats.Msg { return []*nats.Msg{{Subject: strconv.Itoa(n), Data: make([]byte, n)}} }
	for _, tt := range []struct {
		name     string
		requests [][]*nats.Msg
		want     []int // requests of each group
	}{
		{"as many messages as a batch has", [][]*nats.Msg{many(2), many(MaxBatch - 2), many(2), many(2)}, []int{1, 2, 1}},
		{"as many bytes as are stored together", [][]*nats.Msg{many(2), large(commitBytes / 2), large(commitBytes / 2), large(1)}, []int{1, 1, 2}},
		{"a large one by itself", [][]*nats.Msg{many(2), large(2 * commitBytes), large(1)}, []int{1, 1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var s tray
				for _, a := range ask(t, &s, none, tt.requests...) {
					require.NoError(t, a.err)
				}
				require.Len(t, s.stored, len(tt.want))
				next := 0
				for i, n := range tt.want {
					count := 0
					for range n {
						count += len(tt.requests[next])
						next++
					}
					require.Len(t, strings.Fields(s.stored[i]), count)
				}
			})
		})
	}
}

func TestSizeOf_IsThatOnTheWire(t *testing.T) {
	t.Parallel()
	msg := message(streams.Names{}, "default", caused())
	require.Equal(t, msg.Size()-len(msg.Subject), sizeOf(msg))
}
