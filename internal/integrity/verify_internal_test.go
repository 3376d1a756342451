package integrity

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/streams"
)

// A verification that ends early for a requested one has not failed, and is not logged.
func TestVerification_EndsEarlyWithoutAWarning(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	rooms := storetest.Connect(t, natsstore.Options{Conn: server})
	require.NoError(t, rooms.Provision(t.Context()))
	js := natstest.JetStream(t, server)
	for i := range 1000 { // a verification pauses after them
		_, err := js.PublishAsync(rooms.Names().KeySubject(streams.Answers, strconv.Itoa(i)), nil)
		require.NoError(t, err)
	}
	<-js.PublishAsyncComplete()
	var text bytes.Buffer
	v := NewVerification(New(t.TempDir(), rooms.Store, nil, slog.New(slog.NewTextHandler(&text, nil))))
	_, err := v.Begin(t.Context())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = v.Run(ctx) })
	require.Eventually(t, func() bool { return !v.Now().EndedAt.IsZero() }, time.Minute, time.Millisecond)
	stop()
	running.Wait()
	require.Empty(t, text.String())
	require.Empty(t, v.Now().Error)
}
