package announce_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/announce"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S4-82: an automation that loops a thousand times a second is told of once a minute.
func TestAnUnsafeProducerIsToldOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		a := announce.New(l, announce.Options{})
		defer run(t, a)()
		is := sluice.Unsafe{
			Producer: "user:ann", Since: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), Namespace: "acme", Hops: 2,
			Event: sluice.Link{ID: "e", Type: "t", Path: "/a", Cause: "secret"},
		}
		for range 121 { // a second each
			is.Count++
			a.Unsafe(is)
			<-time.After(time.Second)
		}
		other := is
		other.Producer = "user:bob"
		a.Unsafe(other)
		synctest.Wait()
		require.Len(t, l.published(), 4)
		ev := l.events[1]
		require.Equal(t, []any{"acme", sluice.Path("/_sys/producers"), "producer_unsafe", "/sluice"}, []any{ev.Namespace, ev.Path, ev.Type, ev.Source})
		require.JSONEq(t, `{"producer":"user:ann","since":"2026-11-21T00:00:00Z","count":61,"event":{"id":"e","type":"t","path":"/a"},"hops":2}`, string(ev.Data))
	})
}
