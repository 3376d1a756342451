package durable_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A reader to whom much is hidden does not have all of it read in one request, and a waiting reader reaches the events that it may see.
func TestRead_HiddenRangesAreReadInParts(t *testing.T) {
	t.Parallel()
	u := newSpace(t, 0).user()
	u.create(t, durable.Create{ContentType: durable.JSONType})
	hidden := append(append([]byte("["), bytes.Repeat([]byte("0,"), 899)...), "0]"...)
	for range 12 {
		_, err := u.append(t.Context(), durable.Append{ContentType: durable.JSONType, Body: hidden})
		require.NoError(t, err)
	}
	_, err := u.append(t.Context(), durable.Append{ContentType: durable.JSONType, Body: []byte(`["seen"]`)})
	require.NoError(t, err)
	looked := 0
	show := func(ev *sluice.Event) (bool, error) {
		looked++
		return json.Valid(ev.Data) && string(ev.Data) != "0", nil
	}
	page, err := u.engine.Read(t.Context(), u.key(), durable.Place{}, show)
	require.NoError(t, err)
	require.Empty(t, page.Messages)
	require.False(t, page.UpToDate)
	require.Equal(t, 10_000, looked)
	page, err = u.engine.Await(t.Context(), u.key(), durable.Place{}, show)
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte(`"seen"`)}, page.Messages)
	require.True(t, page.UpToDate)
}
