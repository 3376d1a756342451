package mirror

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// copied counts how often its entries were read for a list of topics, which takes a second.
type copied struct {
	Copies

	revision uint64
	scans    chan struct{}
}

func (c *copied) Hold(context.Context, string, []string) (Held, error) {
	return Held{Place: Place{Revision: c.revision}}, nil
}

func (c *copied) Topics(context.Context, string, string, int) ([]sluice.MirroredTopic, error) {
	c.scans <- struct{}{}
	<-time.After(time.Second)
	return []sluice.MirroredTopic{{Topic: "/b"}, {Topic: "/a"}}, nil
}

// A list of topics is read once for its pages and its readers, until the mirror has moved on, and then as soon as ten
// times what it took are over. Two are read at once, and the last four are kept.
func TestTopics_AreReadOnceForTheirPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &copied{revision: 1, scans: make(chan struct{}, 100)}
		k := New(Deps{Owns: owner{}, Copies: store}, Options{}).Keeper()
		reads := func(id, prefix string, times int) {
			t.Helper()
			all, err := k.Topics(t.Context(), &sluice.Mirror{ID: id, Source: "low"}, prefix)
			require.NoError(t, err)
			require.Equal(t, []sluice.MirroredTopic{{Topic: "/a", Source: "low", Subscription: id}, {Topic: "/b", Source: "low", Subscription: id}}, all)
			require.Len(t, store.scans, times)
		}
		reads("m", "", 1)
		<-time.After(time.Hour)
		reads("m", "", 1)
		reads("m", "/a", 2)
		store.revision = 2
		reads("m", "/a", 2)
		<-time.After(10 * time.Second)
		reads("m", "/a", 2)
		<-time.After(time.Millisecond)
		reads("m", "/a", 3)
		_, err := k.Topics(t.Context(), &sluice.Mirror{ID: "m", CreatedAt: time.Now()}, "/a")
		require.NoError(t, err)
		require.Len(t, store.scans, 4, "the id of a mirror that was deleted")

		begun := time.Now()
		for i := range 4 {
			go func() { _, _ = k.Topics(t.Context(), &sluice.Mirror{ID: fmt.Sprint("n", i)}, "") }()
			synctest.Wait()
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Len(t, store.scans, 8)
		require.Equal(t, 2*time.Second, time.Since(begun), "two at once")
		reads("m", "/a", 9) // four others came
	})
}
