package mirror

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// oneRecord is the record of a mirror.
type oneRecord struct {
	Definitions

	is Stored
}

func (r oneRecord) Get(context.Context, string) (Stored, uint64, error) { return r.is, 7, nil }

// Who knows a mirror from before it was begun anew removes nothing of its copy, and learns its record.
func TestOpened_OfAnOldRecordIsRefused(t *testing.T) {
	t.Parallel()
	was := active("m", "a")
	was.CreatedAt, was.Revision = time.Unix(1, 0), 3
	is, begun := *was, time.Unix(2, 0)
	is.BegunAt = &begun
	copies := &onePlace{at: Place{Of: begun, Watermark: 9, Revision: 5}} // it cannot be removed
	e := New(Deps{Owns: owner{}, Copies: copies, Definitions: oneRecord{is: is}}, Options{})
	e.change("m", was)
	_, err := e.opened(t.Context(), &was.Mirror)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err), "%v", err)
	require.True(t, e.superseded(&was.Mirror) || e.latest(was).BegunAt != nil)
	at, err := e.opened(t.Context(), &is.Mirror)
	require.NoError(t, err)
	require.EqualValues(t, 9, at.Watermark)
}
