package e2e_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// upgradeSecret is the secret of the subscription "done" in the data directory of 4ec7227.
const upgradeSecret = "whsec_XVGSUD2S44izRyR0NOV1awYkvi5qPPgBnqbvcQV5HsA="

// TestUpgrade_DataOf4ec7227 starts on a data directory that the server of commit 4ec7227 wrote: in namespace acme
// four orders, which "done" delivered, "held" has not begun, as it was paused, and "parked" has tried twice; a wake
// subscription, a stream of two messages, an event type with a schema, a grant, a watch, and a scheduled event and an
// appointment that became due while no server ran.
func TestUpgrade_DataOf4ec7227(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unpack(t, "testdata/data-4ec7227.tar.gz", dir)
	s := start(t, dir, nil)
	hooks := map[string]*hooktest.Server{}
	for _, id := range []string{"done", "held", "parked"} {
		sub, err := s.api.Subscription(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, sluice.Paused, sub.State, id)
		hooks[id] = hooktest.New(t, nil)
		_, err = s.api.PatchSubscription(t.Context(), id, map[string]any{"endpoint": map[string]any{"url": hooks[id].URL}}, 0)
		require.NoError(t, err, id)
		require.Empty(t, hooks[id].Requests(), "it is paused")
	}
	for id := range hooks {
		_, err := s.api.ResumeSubscription(t.Context(), id)
		require.NoError(t, err)
	}

	require.ElementsMatch(t, []string{"later"}, idsOf(hooks["done"].Wait(1)), "the scheduled event and nothing again")
	require.ElementsMatch(t, []string{"order-3", "order-4", "later"}, idsOf(hooks["held"].Wait(3)), "what its filter matches")
	require.ElementsMatch(t, []string{"order-1", "order-2", "order-3", "order-4", "later"}, idsOf(hooks["parked"].Wait(5)))
	for _, r := range hooks["parked"].Requests() {
		if idOf(r) != "later" {
			require.Equal(t, "3", r.Header.Get("webhook-attempt"), "earlier attempts count")
		}
	}
	receive(t, &webhook.Receiver{Secrets: []string{upgradeSecret}}, hooks["done"].Requests()[0])

	stream, err := s.api.ReadStream(t.Context(), "acme", "/doc/a", "")
	require.NoError(t, err)
	messages, err := stream.Messages()
	require.NoError(t, err)
	require.Equal(t, []json.RawMessage{json.RawMessage(`{"x":1}`), json.RawMessage(`{"x":2}`)}, messages)
	kind, err := s.api.EventType(t.Context(), "acme", "order.placed")
	require.NoError(t, err)
	require.Contains(t, string(kind.Schema), "required")
	_, err = s.api.Publish(t.Context(), "acme", sluice.Event{Path: "/orders/5", Type: "order.placed", ContentType: "application/json", Data: []byte(`{"total":101}`)})
	require.NoError(t, err)
	for _, path := range []sluice.Path{"/alarms/hot", "/lamps/1"} {
		eventually(t, func() bool {
			page, err := s.api.Events(t.Context(), "acme", client.EventsQuery{Pattern: sluice.Pattern(path)})
			return err == nil && len(page.Items) == 1
		}, "the watch and the appointment publish")
	}
	wakes, err := s.api.Subscription(t.Context(), "wake")
	require.NoError(t, err)
	require.Equal(t, sluice.Wake, wakes.Mode)
}

// unpack writes the files of an archive to a directory.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // it was read
	zipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	files := tar.NewReader(zipped)
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(name, 0o700))
			continue
		}
		content, err := io.ReadAll(files)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, content, 0o600))
	}
}
