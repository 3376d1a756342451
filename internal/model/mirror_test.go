package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A frame of a mirror's feed is one line, and its data has the bytes of the original but for white space.
func TestMirrorChange_KeepsDataOnOneLine(t *testing.T) {
	t.Parallel()
	c := model.MirrorChange{Cursor: 7, Item: &sluice.MirroredItem{Source: "mirrored", Change: sluice.ChangeOf(sluice.Event{
		Seq: 1, ID: "a", ContentType: "application/json", Data: []byte("{\n \"t\" : \"<b> & \u2028 \\u003c\",\n \"n\" : 1.0\n}"),
	})}}
	text, err := c.AppendJSON(nil)
	require.NoError(t, err)
	require.Contains(t, string(text), "\"data\":{\"t\":\"<b> & \u2028 \\u003c\",\"n\":1.0}")
	require.NotContains(t, string(text), "\n")
}
