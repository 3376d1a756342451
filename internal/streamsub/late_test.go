package streamsub_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// late is a log that reports nothing while it is held.
type late struct {
	streamsub.Logs

	held  sync.Mutex
	read  chan struct{} // receives when something was reported
	found chan uint64   // what NextSeq found
}

func (l *late) FollowTails(ctx context.Context, namespace string, tell func(sluice.Path, uint64)) error {
	return l.Logs.FollowTails(ctx, namespace, func(path sluice.Path, seq uint64) {
		l.held.Lock()
		defer l.held.Unlock()
		tell(path, seq)
		select {
		case l.read <- struct{}{}:
		default:
		}
	})
}

func (l *late) NextSeq(ctx context.Context, namespace, subject string, from uint64) (uint64, error) {
	seq, err := l.Logs.NextSeq(ctx, namespace, subject, from)
	if err == nil {
		l.found <- seq
	}
	return seq, err
}

// claimLate claims from a process whose log is held from now on, and returns the result as soon as there is one.
func claimLate(t *testing.T) (b *bench, logs *late, claim func() <-chan error) {
	t.Helper()
	b = newBench(t)
	logs = &late{Logs: b.store.Log, read: make(chan struct{}, 1), found: make(chan uint64, 64)}
	b.logs = logs
	p := b.process(t, "one", true)
	p.subscribe(t, pull())
	<-logs.read // the log is empty, so that is all
	logs.held.Lock()
	return b, logs, func() <-chan error {
		claimed := make(chan error, 1)
		go func() {
			_, err := p.Claim(t.Context(), key, "w")
			claimed <- err
		}()
		return claimed
	}
}

// A process that has not read the end of the log yet waits for it, however long its messages are on their way.
func TestClaim_SeesAnsweredAppendsOfALateFollower(t *testing.T) {
	t.Parallel()
	b, logs, claim := claimLate(t)
	seq := b.publish(t, "/events/x")
	claimed := claim()
	for asked := false; !asked; {
		select {
		case found := <-logs.found:
			if found == seq {
				asked = true
			}
		case err := <-claimed:
			logs.held.Unlock()
			require.FailNow(t, "it did not wait", "%v", err)
		}
	}
	logs.held.Unlock()
	require.NoError(t, <-claimed)
}

// Messages that were removed before a process read them delay it only until the log says so.
func TestClaim_DoesNotWaitForRemovedMessages(t *testing.T) {
	t.Parallel()
	b, logs, claim := claimLate(t)
	defer logs.held.Unlock()
	stream, err := b.store.JetStream().Stream(t.Context(), streams.Names{}.EventsStream("default"))
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, stream.DeleteMsg(t.Context(), b.publish(t, "/events/x")))
	}
	require.Equal(t, streamsub.NoPendingWork, code(<-claim()))
}
