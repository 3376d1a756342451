package mirrorstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/mirrorstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/streams"
)

// staging is a store on a server that abandons a batch only when a message of it is missing.
type staging struct {
	*mirrorstore.Store

	nc        *nats.Conn
	sent      *nats.Subscription // all messages to entries
	abandoned *nats.Subscription
}

func stagingOn(t *testing.T) staging {
	t.Helper()
	nc, err := nats.Connect(natstest.Custom(t, func(o *server.Options) { o.JetStreamLimits.MaxBatchTimeout = time.Hour }))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	s := staging{nc: nc}
	s.abandoned, err = nc.SubscribeSync(server.JSAdvisoryStreamBatchAbandonedPre + ".>")
	require.NoError(t, err)
	s.sent, err = nc.SubscribeSync(streams.MirrorEntriesSubject("m"))
	require.NoError(t, err)
	rooms := storetest.Connect(t, natsstore.Options{URL: nc.ConnectedUrl()})
	require.NoError(t, rooms.Provision(t.Context()))
	s.Store = mirrorstore.New(rooms.Store, 0)
	return s
}

func stepOf(watermark uint64) mirror.Commit {
	return mirror.Commit{
		Place:   mirror.Place{Incarnation: "i", Watermark: watermark},
		Entries: []mirror.Entry{entry(watermark, "x", `1`), entry(watermark, "y", `1`)},
	}
}

// A step that was sent ahead is stored when the one before it is.
func TestStage_StoresInTurn(t *testing.T) {
	t.Parallel()
	s := open(t)
	first, err := s.Stage(t.Context(), "m", stepOf(1))
	require.NoError(t, err)
	second, err := s.Stage(t.Context(), "m", stepOf(2))
	require.NoError(t, err)
	held, err := s.Hold(t.Context(), "m", []string{"x"})
	require.NoError(t, err)
	require.Zero(t, held.Place.Revision, "nothing can be seen yet")
	require.Empty(t, held.Entries)
	revision, err := first(t.Context(), 0)
	require.NoError(t, err)
	held, err = s.Hold(t.Context(), "m", []string{"x"})
	require.NoError(t, err)
	require.EqualValues(t, 1, held.Entries["x"].Change.Event.Seq)
	_, err = second(t.Context(), revision)
	require.NoError(t, err)
	held, err = s.Hold(t.Context(), "m", nil)
	require.NoError(t, err)
	require.EqualValues(t, 2, held.Place.Watermark)
}

// JetStream has 50 open batches for a stream at most, and this process opens 40: those that are given up count no more.
func TestStage_GivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	s := stagingOn(t)
	for range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		store, err := s.Stage(ctx, "m", stepOf(1))
		require.NoError(t, err)
		cancel()
		_, err = store(t.Context(), 0)
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.abandoned.NextMsgWithContext(t.Context())
		require.NoError(t, err)
	}
	_, err := s.Commit(t.Context(), "m", stepOf(1))
	require.NoError(t, err)
}

// A step waits for the one before it. JetStream may have abandoned its batch then.
func TestStage_SendsAnAbandonedStepAgain(t *testing.T) {
	t.Parallel()
	s := stagingOn(t)
	store, err := s.Stage(t.Context(), "m", stepOf(1))
	require.NoError(t, err)
	msg, err := s.sent.NextMsgWithContext(t.Context())
	require.NoError(t, err)
	id := msg.Header.Get(natsstore.HeaderBatchID)
	require.NoError(t, s.nc.PublishMsg(&nats.Msg{Subject: msg.Subject, Header: nats.Header{natsstore.HeaderBatchID: {id}, "Nats-Batch-Sequence": {"9"}}}))
	_, err = s.abandoned.NextMsgWithContext(t.Context())
	require.NoError(t, err)
	_, err = store(t.Context(), 0)
	require.NoError(t, err)
	held, err := s.Hold(t.Context(), "m", []string{"x", "y"})
	require.NoError(t, err)
	require.Len(t, held.Entries, 2)
}
