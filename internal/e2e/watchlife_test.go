package e2e_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S2-42: of two servers on one NATS one is killed. Events that come while its watches have no owner are judged when the other has
// taken them over, with what they remember, and nothing fires twice.
func TestWatch_IsTakenOverFromAKilledServer(t *testing.T) {
	t.Parallel()
	shared := natstest.Listening(t)
	killed, one := replica(t, shared.ClientURL(), "3s")
	_, two := replica(t, shared.ClientURL(), "3s")
	const watches = 12
	for n := range watches {
		watched(t, one.api, fmt.Sprint("w", n), hot(func(s *client.WatchSpec) {
			s.Filter.Types, s.Action.Path = nil, sluice.Path(fmt.Sprintf("/alarms/%d", n))
		}))
	}
	js := dial(t, shared.ClientURL())
	read := func(degrees ...int) {
		for _, d := range degrees {
			_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: jsNames(t).EventsPrefix() + "default.sensors.1", Header: nats.Header{"content-type": {"application/json"}}, Data: fmt.Appendf(nil, `{"celsius":%d}`, d)})
			require.NoError(t, err)
		}
	}
	alarms := func(want int) {
		for n := range watches {
			path := sluice.Pattern(fmt.Sprintf("/alarms/%d", n))
			require.Len(t, eventsOn(t, two.api, path, want), want, path)
		}
	}
	read(20, 31, 32)
	alarms(1)
	killed.kill(t)
	read(33, 5, 34) // it held before; it begins to hold again
	alarms(2)
	read(2, 36)
	alarms(3)
	for n := range watches {
		require.Len(t, saidOf(t, two.api, fmt.Sprint("w", n), sluice.TypeWatchFired, 3), 3)
	}
}

// A server that ends in order stores how far its watches have come, and goes on from there.
func TestWatch_KeepsItsStateAcrossARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, nil)
	watched(t, s.api, "hot", hot())
	publishAll(t, s.api, celsius("/sensors/1", 40))
	eventsOn(t, s.api, "/alarms/hot", 1)
	s.stop(t)
	s = start(t, dir, nil)
	publishAll(t, s.api, celsius("/sensors/1", 41), celsius("/sensors/2", 41))
	require.Len(t, eventsOn(t, s.api, "/alarms/hot", 2), 2, "the first sensor has been hot all the time")
}

// S2-42, S2-43: a watch sees what its creator may read, and publishes what its creator may publish, each at that moment.
func TestWatch_HasTheRightsOfItsCreator(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", `{}`)
	for who, line := range map[string]string{"ann": `{"tier":"write"}`, "eve": `{"tier":"read"}`, "bob": `{"tier":"write","pattern":"/alarms/**"}`} {
		s.must(t, http.StatusOK, "PUT /v1/namespaces/acme/acl/user:"+who, line)
	}
	ann, eve, bob := s.grant(t, "user:ann", "scope:acme", "read publish"), s.grant(t, "user:eve", "scope:acme", "read publish"), s.grant(t, "user:bob", "scope:acme", "read publish")
	const body = `{"pattern":"/sensors/**","trigger":"level","filter":{"cel":"event.data > 30"},"action":{"path":"/alarms/hot","type":"alarm"}}`
	const at = "/v1/namespaces/acme/watches/hot"
	s.must(t, http.StatusForbidden, "PUT "+at, body, as(eve.token)...) // may not publish there
	s.must(t, http.StatusForbidden, "PUT "+at, body, as(bob.token)...) // may not read that
	s.must(t, http.StatusCreated, "PUT "+at, body, as(ann.token)...)
	s.must(t, http.StatusNotFound, "GET "+at, "", as(eve.token)...)
	s.must(t, http.StatusNotFound, "DELETE "+at, "", as(eve.token)...)
	s.must(t, http.StatusOK, "GET "+at, "", as(ann.token)...)

	read := func(more string) {
		s.must(t, http.StatusCreated, "POST /v1/namespaces/acme/events", `{"specversion":"1.0","source":"/x","id":"`+rand.Text()+`","type":"reading","data":40,"path":"/sensors/`+more+`}`)
	}
	fired := func(n int) []any {
		var outcomes []any
		eventually(t, func() bool {
			outcomes = nil
			page, err := s.api.Events(t.Context(), "acme", client.EventsQuery{Pattern: "/_sys/watches/hot", Types: []string{sluice.TypeWatchFired}})
			require.NoError(t, err)
			for _, ev := range page.Items {
				outcomes = append(outcomes, reply{text: string(ev.Data)}.field(t, "dispatch_outcome"))
			}
			return len(outcomes) >= n
		}, fmt.Sprintf("it fired %d times", n))
		return outcomes
	}
	read(`1"`)
	require.Equal(t, []any{"ok"}, fired(1))
	read(`1","dataclassification":"RESTRICTED"`) // above her clearance: it is as if it were not there
	s.must(t, http.StatusOK, "PUT /v1/namespaces/acme/acl/user:ann", `{"tier":"read"}`)
	read(`1"`)
	require.Equal(t, []any{"ok", "forbidden"}, fired(2))
	s.must(t, http.StatusOK, "PUT /v1/namespaces/acme/acl/user:ann", `{"tier":"read","pattern":"/sensors/2"}`)
	read(`1"`) // she may not read it, and the next one she may
	read(`2"`)
	require.Equal(t, []any{"ok", "forbidden", "forbidden"}, fired(3))
	s.must(t, http.StatusOK, "PUT /v1/namespaces/acme/acl/user:ann", `{"tier":"write"}`)
	read(`1"`)
	require.Equal(t, []any{"ok", "forbidden", "forbidden", "ok"}, fired(4))
	s.must(t, http.StatusOK, "POST /v1/grants/"+ann.id+"/revoke", "")
	read(`1"`)
	again := s.grant(t, "user:ann", "scope:acme", "read publish")
	s.must(t, http.StatusOK, "PUT "+at, body, as(again.token)...) // in the place of the one without rights
	read(`1"`)
	require.Equal(t, []any{"ok", "forbidden", "forbidden", "ok", "ok"}, fired(5))

	s.must(t, http.StatusNoContent, "DELETE /v1/namespaces/acme", "")
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", `{}`)
	require.Empty(t, s.must(t, http.StatusOK, "GET /v1/namespaces/acme/watches", "").field(t, "watches"))
}
