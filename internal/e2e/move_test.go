package e2e_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 15: the subscription that is one too many moves all of its namespace to the shared reader. That is no failure, and
// deliveries go on.
func TestShared_TakesOverInSilence(t *testing.T) {
	t.Parallel()
	const above = 5
	lines := &lastLines{}
	s := shareAbove(t, above, lines)
	hook := hooktest.New(t, nil)
	for i := range above + 1 {
		s.must(t, http.StatusCreated, "POST /v1/subscriptions", fmt.Sprintf(`{"id":"s%d","pattern":"/a/%d","endpoint":{"url":%q}}`, i, i, hook.URL))
		if i < above {
			s.news(t, fmt.Sprintf("/a/%d", i)) // it has a runner
		}
	}
	hook.Wait(above)
	eventually(t, func() bool { return len(s.consumers(t)) == 0 }, "no subscription has a consumer of its own")
	for i := range above + 1 {
		s.news(t, fmt.Sprintf("/a/%d", i))
	}
	hook.Wait(2*above + 1)
	lines.doNotTell(t, "restarting")
}

// Issue 15: a subscription that asks for it has a consumer of its own, which `nats consumer report` shows, also while others share.
func TestShared_DedicatedConsumerOnRequest(t *testing.T) {
	t.Parallel()
	lines := &lastLines{}
	s := shareAbove(t, 0, lines)
	hook := hooktest.New(t, nil)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", fmt.Sprintf(`{"id":"other","pattern":"/b","endpoint":{"url":%q}}`, hook.URL))
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", fmt.Sprintf(`{"id":"own","pattern":"/a","endpoint":{"url":%q},"policy":{"dedicated":true}}`, hook.URL))
	arrived := 0
	next := func(consumers ...string) {
		eventually(t, func() bool { return slices.Equal(consumers, s.consumers(t)) }, fmt.Sprintf("consumers %q", consumers))
		for range 3 {
			s.news(t, "/a")
		}
		arrived += 3
		require.Len(t, hook.Wait(arrived), arrived, "nothing comes twice")
	}
	next("own")
	s.must(t, http.StatusOK, "PATCH /v1/subscriptions/own", `{"policy":{"dedicated":false}}`)
	next()
	s.must(t, http.StatusOK, "PATCH /v1/subscriptions/own", `{"policy":{"dedicated":true}}`)
	next("own")
	lines.doNotTell(t, "restarting")
}

// A publisher on NATS writes to a subject that is no path's: a subscription that shares the reader gets a dead letter, and what
// follows.
func TestShared_SubjectWithoutAPathIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := shareAbove(t, 0, &lastLines{})
	hook := hooktest.New(t, nil)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", fmt.Sprintf(`{"id":"a","pattern":"/a/**","endpoint":{"url":%q}}`, hook.URL))
	nc := natstest.Connect(t, s.at.NATS, asTester())
	require.NoError(t, nc.Publish(jsNames(t).EventsPrefix()+"default.a.=61", []byte("x")))
	require.NoError(t, nc.Flush())
	s.news(t, "/a/b")
	hook.Wait(1)
	eventually(t, func() bool {
		letters := s.letters(t, "a")
		return len(letters) == 1 && letters[0].Reason == sluice.Malformed
	}, "a dead letter")
}

func shareAbove(t *testing.T, above int, lines *lastLines) *running {
	t.Helper()
	return startWith(t, t.TempDir(), func(c *config.Config) { c.Webhooks.SharedAbove = above }, app.Options{
		Version: "test", Silent: true, Log: slog.New(slog.NewTextHandler(lines, nil)),
	})
}

// consumers returns the durable consumers of the default namespace's subscriptions.
func (s *running) consumers(t *testing.T) (names []string) {
	t.Helper()
	stream, err := dial(t, s.at.NATS).Stream(t.Context(), jsNames(t).EventsStream("default"))
	require.NoError(t, err)
	for c := range stream.ListConsumers(t.Context()).Info() {
		if c.Config.Durable != "" {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (l *lastLines) doNotTell(t *testing.T, text string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.NotContains(t, string(l.kept), text)
}
