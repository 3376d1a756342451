package sysevent_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/sysevent"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// letters hands dead letters out one after the other, and again until they are told.
type letters struct {
	subs   map[string]*sluice.Subscription
	buried chan *sluice.DeadLetter
}

func newLetters() *letters {
	return &letters{subs: map[string]*sluice.Subscription{}, buried: make(chan *sluice.DeadLetter, 100)}
}

func (l *letters) bury(d *sluice.DeadLetter) { l.buried <- d }

func (l *letters) Follow(ctx context.Context, tell func(context.Context, []model.BuriedLetter, bool) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case d := <-l.buried:
			for again := false; tell(ctx, []model.BuriedLetter{{DeadLetter: *d}}, again) != nil; again = true {
				<-time.After(time.Second)
			}
		}
	}
}

func (l *letters) Subscription(_ context.Context, id string) (*sluice.Subscription, error) {
	if sub, ok := l.subs[id]; ok {
		return sub, nil
	}
	return nil, sluice.Errorf(sluice.NotFound, "there is no %s", id)
}

// C32: a log that cannot be written for a minute keeps none from being told, nor has any told twice.
func TestDeadLetter_IsAnnouncedAfterALogOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, dead := &log{err: errors.New("no leader")}, newLetters()
		stored := map[string]bool{"dead-s-1-exhausted": true} // the answer was lost
		known := func(_ context.Context, ns string, path sluice.Path, ids []string, since time.Time) ([]string, error) {
			require.Equal(t, []any{"acme", sluice.Path("/_sys/deliveries/s"), letter(1).At}, []any{ns, path, since})
			return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !stored[id] }), nil
		}
		a := sysevent.New(l, sysevent.Options{Letters: dead, Known: known})
		defer run(t, a)()
		dead.bury(letter(1))
		dead.bury(letter(2))
		<-time.After(time.Minute)
		require.NotEmpty(t, l.published())
		l.mu.Lock()
		l.err, l.events = nil, nil
		l.mu.Unlock()
		<-time.After(time.Minute)
		require.Len(t, l.published(), 1)
		require.Equal(t, "dead-s-2-exhausted", l.published()[0].ID)
	})
}
