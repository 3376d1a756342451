package terminal

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A page without events need not be the last: events may be hidden, or not match.
func TestFirstEvent_ReadsOnAfterEmptyPage(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"":  `{"events":[],"next_cursor":"b"}`,
		"b": `{"events":[],"next_cursor":"c"}`,
		"c": `{"events":[{"specversion":"1.0","id":"x","source":"/s","type":"t","path":"/a"}],"next_cursor":"d"}`,
		"e": `{"events":[],"next_cursor":""}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, pages[r.URL.Query().Get("cursor")])
	}))
	t.Cleanup(server.Close)
	api := client.New(server.URL, "t")
	ev, ok, err := FirstEvent(t.Context(), api, sluice.DefaultNamespace, client.EventsQuery{})
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "x", ev.ID)
	_, ok, err = FirstEvent(t.Context(), api, sluice.DefaultNamespace, client.EventsQuery{Cursor: "e"})
	require.NoError(t, err)
	require.False(t, ok)
}
