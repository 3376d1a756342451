package watch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// burial is a log and records that answer with errors, and note what was done.
type burial struct {
	Log

	announce, forget, remove error
	done                     []string
	told                     sluice.Event
}

func (b *burial) Has(context.Context, string, sluice.Path, uint64, func(*sluice.Event) bool) (bool, error) {
	return false, nil
}

func (b *burial) Announce(_ context.Context, ev sluice.Event) error {
	b.done, b.told = append(b.done, "told"), ev
	return b.announce
}

func (b *burial) Forget(context.Context, string, string) error {
	b.done = append(b.done, "forgotten")
	return b.forget
}

func (b *burial) Delete(context.Context, string, string, uint64) error {
	b.done = append(b.done, "deleted")
	return b.remove
}

// S2-45: a cancelled watch is told of, forgotten and deleted, in this order; what fails is tried again later, from there on.
func TestBury_TellsBeforeItForgets(t *testing.T) {
	t.Parallel()
	away, all := errors.New("away"), []string{"told", "forgotten", "deleted"}
	for _, c := range []struct {
		name                     string
		announce, forget, remove error
		done                     []string
		fails                    bool
	}{
		{"all goes well", nil, nil, nil, all, false},
		{"the log does not take it", away, nil, nil, all[:1], true},
		{"the namespace is gone", sluice.Errorf(sluice.NotFound, "gone"), nil, nil, all, false},
		{"it cannot be forgotten", nil, away, nil, all[:2], true},
		{"it cannot be deleted", nil, nil, away, all, true},
		{"another replica deleted it", nil, nil, sluice.Errorf(sluice.Conflict, "changed"), all, false},
	} {
		b := &burial{announce: c.announce, forget: c.forget, remove: c.remove}
		at := time.Unix(1_700_000_000, 0).UTC()
		err := bury(t.Context(), b, b, &Stored{Watch: sluice.Watch{ID: "old", Namespace: "acme"}, Untold: &Cancelled{ID: "e", By: "user:eve", At: at}})
		require.Equal(t, c.fails, err != nil, c.name)
		require.Equal(t, c.done, b.done, c.name)
		require.Equal(t, at, b.told.Time, "when it was cancelled, not when it is told")
	}
}
