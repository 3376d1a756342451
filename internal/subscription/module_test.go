package subscription_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// handler returns a request for the subscription of a module's handler.
func handler(t *testing.T, pattern sluice.Pattern) *subscription.Request {
	t.Helper()
	req := parse(t, `{"pattern":"`+string(pattern)+`","endpoint":{"url":"`+url+`"}}`)
	req.ID, req.Module = "m-h", "m"
	return req
}

// always is the look at the record of a module that does not change.
func always() error { return nil }

// Another pattern begins at the first event that is not settled: it may be in the log, or in a lane that waits for a retry.
func TestPutHandler_PatternKeepsThePlace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	put := func(pattern sluice.Pattern) (*sluice.Subscription, error) {
		return b.PutHandler(t.Context(), "m-h", handler(t, pattern), "root", always)
	}
	before, err := put("/a/**")
	require.NoError(t, err)
	_, err = b.store.Log.Publish(t.Context(), "default", []sluice.Event{{ID: "1", Path: "/b", Type: "t"}, {ID: "2", Path: "/a/1", Type: "t"}, {ID: "3", Path: "/a", Type: "t"}})
	require.NoError(t, err)
	require.NoError(t, b.SuspendHandler(t.Context(), "m", "m-h", "its files have changed", always))

	b.consumers.fail = []error{errors.New("no answer")}
	_, err = put("/a/*")
	require.ErrorContains(t, err, "no answer")
	stays, err := b.Get(t.Context(), "m-h")
	require.NoError(t, err)
	require.Equal(t, []any{sluice.Pattern("/a/**"), sluice.Suspended, before.From}, []any{stays.Pattern, stays.State, stays.From}, "nothing has changed")

	after, err := put("/a/*")
	require.NoError(t, err)
	require.Equal(t, []any{sluice.Pattern("/a/*"), sluice.Active, before.CreatedAt}, []any{after.Pattern, after.State, after.CreatedAt})
	require.Equal(t, sluice.StartAt{Kind: sluice.StartSeq, Seq: 2}, after.From)
	require.NoError(t, b.store.Deliveries.EnsureConsumers(t.Context(), after))
	require.False(t, b.hasConsumer(t, "m-h_root"), "the pattern has one filter")

	_, err = b.store.Deliveries.Park(t.Context(), after, sluice.Parked{Lane: "m-h.p.a.1", FromSeq: 2}, 0)
	require.NoError(t, err)
	source, err := b.store.Deliveries.OpenSource(t.Context(), after)
	require.NoError(t, err)
	require.NoError(t, (<-source.Deliveries()).Receipt.Ack())
	source.Close()
	require.Eventually(t, func() bool {
		status, err := b.store.Deliveries.Brief(t.Context(), after)
		return err == nil && status.Backlog == 0
	}, time.Minute, 10*time.Millisecond)
	again, err := put("/**")
	require.NoError(t, err)
	require.Equal(t, uint64(2), again.From.Seq, "the event is in a parked lane")
	require.True(t, again.Began().After(after.Began()))
}

// A subscription that has ended begins anew, and one that is not the module's stays as it is.
func TestPutHandler_EndedOneBeginsAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	before, err := b.PutHandler(t.Context(), "m-h", handler(t, "/a/**"), "root", always)
	require.NoError(t, err)
	_, err = b.store.Log.Publish(t.Context(), "default", []sluice.Event{{ID: "1", Path: "/a", Type: "t"}})
	require.NoError(t, err)
	_, err = b.Cancel(t.Context(), before, func() error { return nil })
	require.NoError(t, err)
	after, err := b.PutHandler(t.Context(), "m-h", handler(t, "/b/**"), "root", always)
	require.NoError(t, err)
	require.True(t, after.CreatedAt.After(before.CreatedAt))
	require.Equal(t, uint64(2), after.From.Seq)
	other := handler(t, "/b/**")
	other.Module = "other"
	_, err = b.PutHandler(t.Context(), "m-h", other, "root", always)
	requireCode(t, sluice.SubscriptionDiffers, err)
}

// An act whose look at the record of the module is outdated changes nothing after an approval, even if that changed nothing.
func TestHandler_OutdatedLookChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	before, err := b.PutHandler(t.Context(), "m-h", handler(t, "/a/**"), "root", always)
	require.NoError(t, err)
	outdated := sluice.Errorf(sluice.Conflict, "it was approved meanwhile")
	for name, act := range map[string]func(first func() error) error{
		"pause":   func(first func() error) error { return b.PauseHandler(t.Context(), "m", "m-h", "root", first) },
		"suspend": func(first func() error) error { return b.SuspendHandler(t.Context(), "m", "m-h", "changed", first) },
		"delete": func(first func() error) error {
			return b.DeleteHandler(t.Context(), "m", "m-h", "root", first)
		},
		"put": func(first func() error) error {
			_, err := b.PutHandler(t.Context(), "m-h", handler(t, "/b/**"), "other", first)
			return err
		},
	} {
		var now error
		looks := 0
		err := act(func() error {
			saw := now
			looks++
			if name != "put" || looks == 2 { // put looks once before its tries
				_, err := b.PutHandler(t.Context(), "m-h", handler(t, "/a/**"), "root", always)
				require.NoError(t, err)
				now = outdated
			}
			return saw
		})
		require.ErrorIs(t, err, outdated, name)
		is, err := b.Get(t.Context(), "m-h")
		require.NoError(t, err)
		require.Equal(t, []any{sluice.Active, before.Pattern, "root"}, []any{is.State, is.Pattern, is.CreatedBy}, name)
	}
	require.Equal(t, []string{sluice.TypeSubscriptionCreated}, b.heard.kinds, "nothing has changed")
}

// A handler's subscription that has ended, or is missing, is not stopped.
func TestHandler_StopsActiveOnes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	never := func() error { return errors.New("no reason to look") }
	stop := func(first func() error) error {
		return errors.Join(b.PauseHandler(t.Context(), "m", "m-h", "root", first), b.SuspendHandler(t.Context(), "m", "m-h", "changed", first))
	}
	require.NoError(t, stop(never), "it is missing")
	before, err := b.PutHandler(t.Context(), "m-h", handler(t, "/a/**"), "root", always)
	require.NoError(t, err)
	require.NoError(t, stop(always))
	is, err := b.Get(t.Context(), "m-h")
	require.NoError(t, err)
	require.Equal(t, sluice.Paused, is.State)
	require.NoError(t, stop(never), "it is paused")
	_, err = b.Cancel(t.Context(), before, func() error { return nil })
	require.NoError(t, err)
	require.NoError(t, stop(never), "it has ended")
}

// Acts on a handler leave a subscription with its ID alone that is another module's, or of no module.
func TestHandler_ForeignSubscriptionStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.Put(t.Context(), "m-h", parse(t, `{"pattern":"/a/**","endpoint":{"url":"`+url+`"}}`), "bob")
	require.NoError(t, err)
	stays := func(module string) {
		before, err := b.Get(t.Context(), "m-h")
		require.NoError(t, err)
		require.NoError(t, b.PauseHandler(t.Context(), module, "m-h", "root", always))
		require.NoError(t, b.SuspendHandler(t.Context(), module, "m-h", "changed", always))
		require.NoError(t, b.DeleteHandler(t.Context(), module, "m-h", "root", always))
		req := handler(t, "/a/**")
		req.Module = module
		_, err = b.PutHandler(t.Context(), "m-h", req, "root", always)
		requireCode(t, sluice.SubscriptionDiffers, err)
		after, err := b.Get(t.Context(), "m-h")
		require.NoError(t, err)
		require.Equal(t, before, after)
	}
	stays("m")

	require.NoError(t, b.Delete(t.Context(), "m-h", "bob"))
	_, err = b.PutHandler(t.Context(), "m-h", handler(t, "/a/**"), "root", always)
	require.NoError(t, err)
	stays("other")
}

// A put that other acts overtake during its first look decides on the subscription as it is then.
func TestPutHandler_OvertakenPutLooksAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ordered := handler(t, "/a/**")
	ordered.Policy = &sluice.Policy{Ordering: sluice.OrderNone}
	foreign := handler(t, "/a/**")
	foreign.Module = "other"
	outdated := sluice.Errorf(sluice.Conflict, "it was approved meanwhile")
	put := func(req *subscription.Request, by string, first func() error) (*sluice.Subscription, error) {
		return b.PutHandler(t.Context(), "m-h", req, by, first)
	}
	remove := func() { require.NoError(t, b.Delete(t.Context(), "m-h", "root")) }
	puts := func(reqs ...*subscription.Request) func() {
		return func() {
			for _, req := range reqs {
				_, err := put(req, "first", always)
				require.NoError(t, err)
			}
		}
	}
	for name, c := range map[string]struct {
		before, meanwhile func()
		req               *subscription.Request
		then              error  // of the looks after the first one
		want              string // creator of the subscription afterwards
		code              sluice.Code
	}{
		"changed, and the put is outdated":           {puts(ordered), puts(handler(t, "/b/**")), handler(t, "/a/**"), outdated, "first", sluice.Conflict},
		"put first, and the put is outdated":         {puts(ordered), puts(ordered), handler(t, "/a/**"), outdated, "first", sluice.Conflict},
		"created alike":                              {puts(), puts(handler(t, "/a/**")), handler(t, "/a/**"), nil, "second", ""},
		"created otherwise":                          {puts(), puts(handler(t, "/b/**")), handler(t, "/a/**"), nil, "second", ""},
		"created with another ordering":              {puts(), puts(ordered), handler(t, "/a/**"), nil, "second", ""},
		"created by an outdated put's successor":     {puts(), puts(handler(t, "/b/**")), handler(t, "/a/**"), outdated, "first", sluice.Conflict},
		"deleted":                                    {puts(handler(t, "/a/**")), remove, handler(t, "/a/**"), nil, "second", ""},
		"deleted before it would be created anew":    {puts(ordered), remove, handler(t, "/a/**"), nil, "second", ""},
		"created anew with the ordering":             {puts(ordered), puts(handler(t, "/b/**")), handler(t, "/a/**"), nil, "second", ""},
		"replaced by another module's":               {puts(handler(t, "/a/**")), func() { remove(); puts(foreign)() }, handler(t, "/a/**"), nil, "first", sluice.SubscriptionDiffers},
		"created anew, replaced by another module's": {puts(ordered), func() { remove(); puts(foreign)() }, handler(t, "/a/**"), nil, "first", sluice.SubscriptionDiffers},
	} {
		c.before()
		looks := 0
		after, err := put(c.req, "second", func() error {
			if looks++; looks == 1 {
				c.meanwhile()
				return nil
			}
			return c.then
		})
		is, missing := b.Get(t.Context(), "m-h")
		require.NoError(t, missing, name)
		require.Equal(t, c.want, is.CreatedBy, name)
		if c.code == "" {
			require.NoError(t, err, name)
			require.Equal(t, []any{c.req.Pattern, sluice.OrderByPath, is.Revision}, []any{is.Pattern, is.Policy.Ordering, after.Revision}, name)
		} else {
			requireCode(t, c.code, err)
		}
		remove()
	}
}
