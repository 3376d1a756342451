package ownership_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/ownership"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// leased is a replica's leases, of which it has one or none.
type leased string

func (leased) Run(context.Context, func() <-chan struct{}) error { return nil }

func (l leased) Owns(subscription string) bool { return subscription == string(l) }

func (l leased) Holding() (then, still func(string) bool) { return l.Owns, l.Owns }

// passing lets everything leave.
type passing struct{}

func (passing) Decide(*sluice.Subscription, *sluice.Event, time.Time) model.Decision {
	return model.Pass
}

// Nothing leaves for a subscription whose lease has run out, before the engine is told so, too.
func TestGate_KeepsBackWithoutALease(t *testing.T) {
	t.Parallel()
	g := ownership.Gate{Of: passing{}, Owns: ownership.New(leased("ours")).Part()}
	for id, want := range map[string]model.Decision{"ours": model.Pass, "theirs": model.Undecided} {
		require.Equal(t, want, g.Decide(&sluice.Subscription{ID: id}, &sluice.Event{}, time.Now()), id)
	}
}
