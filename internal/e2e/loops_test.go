package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// link returns an event that names its cause, "" for none.
func link(id, kind string, path sluice.Path, cause string) sluice.Event {
	ev := sluice.Event{ID: id, Type: kind, Path: path, Source: "/automation", Data: []byte(`{}`)}
	if cause != "" {
		ev.Extensions = map[string]string{"causationid": cause, "correlationid": "affair"}
	}
	return ev
}

// refusedLoop returns the details of an error that has to be of a loop.
func refusedLoop(t require.TestingT, err error) map[string]any {
	require.Equal(t, sluice.EventLoopDetected, sluice.CodeOf(err), "%v", err)
	e, ok := errors.AsType[*sluice.Error](err)
	require.True(t, ok)
	return e.Details
}

func publishOne(ctx context.Context, api *client.Client, ev sluice.Event) error {
	_, err := api.Publish(ctx, sluice.DefaultNamespace, ev)
	return err
}

// automation is a receiver that reacts to every event with one of its own, until it is refused.
type automation struct {
	t     *testing.T
	api   *client.Client
	react func(d *webhook.Delivery) sluice.Event

	mu      sync.Mutex
	got     []string
	refused error
}

func (a *automation) answer(r hooktest.Request) hooktest.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	d, err := webhook.Parse("", r.Header, r.Body)
	if err == nil {
		a.got = append(a.got, d.ID)
		err = publishOne(a.t.Context(), a.api, a.react(d))
	}
	if err != nil && a.refused == nil {
		a.refused = err
	}
	return hooktest.Answer{}
}

func (a *automation) stopped() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused != nil
}

// S4-79, S4-81, S4-82, C17: an automation that reacts to an event with its like is stopped after one round.
func TestLoop_SelfTriggeringAutomationIsStopped(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	a := &automation{t: t, api: s.api, react: func(d *webhook.Delivery) sluice.Event {
		return link("again-"+d.ID, d.Type, "/orders/7", d.ID)
	}}
	hook := hooktest.New(t, a.answer)
	subscribe(t, s.api, wish(hook.URL, `"id":"robot"`, `"pattern":"/orders/**"`))
	told := hooktest.New(t, nil)
	subscribe(t, s.api, wish(told.URL, `"id":"alarm"`, `"pattern":"/_sys/producers"`))
	require.NoError(t, publishOne(t.Context(), s.api, link("e", "order.paid", "/orders/7", "")))
	eventually(t, a.stopped, "it is refused")

	details := refusedLoop(t, a.refused)
	require.Equal(t, []any{map[string]any{"id": "e", "type": "order.paid", "path": "/orders/7"}}, details["chain"])
	require.InDelta(t, 1, details["hops"], 0)
	require.Equal(t, []string{"e"}, a.got)

	page, err := s.api.UnsafeProducers(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	is := page.Items[0]
	require.Equal(t, []any{"root", uint64(1), "default", 1, "again-e"}, []any{is.Producer, is.Count, is.Namespace, is.Hops, is.Event.ID})
	require.Equal(t, []sluice.Link{{ID: "e", Type: "order.paid", Path: "/orders/7"}}, is.Chain)
	alarm := parse(t, told.Wait(1)[0])
	require.Equal(t, []string{"producer_unsafe", "/sluice"}, []string{alarm.Type, alarm.Source})
	require.Contains(t, s.must(t, http.StatusOK, "GET /metrics", "").text, `sluice_event_loops_total{namespace="default"} 1`)

	held := refusedLoop(t, publishOne(t.Context(), s.api, link("other", "order.packed", "/orders/7", "e")))
	require.Equal(t, []any{true, "root"}, []any{held["unsafe"], held["producer"]}, "until the mark is cleared")
	require.Contains(t, held["clear"], "producers clear")
	require.NoError(t, publishOne(t.Context(), s.api, link("free", "order.packed", "/notes/7", "")))
}

// S4-82, C17: and a chain that never comes back to where it was ends, too.
func TestLoop_ChainBeyond32HopsIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	a := &automation{t: t, api: s.api, react: func(d *webhook.Delivery) sluice.Event {
		n, _ := strconv.Atoi(d.ID)
		return link(strconv.Itoa(n+1), d.Type, sluice.Path(fmt.Sprintf("/chain/%d", n+1)), d.ID)
	}}
	hook := hooktest.New(t, a.answer)
	subscribe(t, s.api, wish(hook.URL, `"pattern":"/chain/**"`))
	require.NoError(t, publishOne(t.Context(), s.api, link("0", "t", "/chain/0", "")))
	eventually(t, a.stopped, "it is refused")
	details := refusedLoop(t, a.refused)
	require.InDelta(t, 33, details["hops"], 0)
	require.Len(t, details["chain"], 32)
	require.Len(t, a.got, 33)
	last := parse(t, hook.Requests()[32])
	require.Equal(t, []string{"31", "affair"}, []string{last.Extensions["causationid"], last.Extensions["correlationid"]})
}

// S4-82: the chain and the mark are known after a restart, and after they were cleared they are not.
func TestUnsafeProducer_MarkIsClearedByAnOperator(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, nil)
	require.NoError(t, publishOne(t.Context(), s.api, link("a", "t", "/1", "")))
	require.NoError(t, publishOne(t.Context(), s.api, link("b", "t", "/2", "a")))
	s.stop(t)
	s = start(t, dir, nil)
	refusedLoop(t, publishOne(t.Context(), s.api, link("c", "t", "/1", "b")))
	s.stop(t)
	s = start(t, dir, nil)
	require.Equal(t, true, refusedLoop(t, publishOne(t.Context(), s.api, link("c", "t", "/3", "b")))["unsafe"])
	require.NoError(t, s.api.ClearProducer(t.Context(), "root"))
	require.NoError(t, publishOne(t.Context(), s.api, link("c", "t", "/3", "b")))
	require.Equal(t, sluice.NotFound, sluice.CodeOf(s.api.ClearProducer(t.Context(), "root")))
	page, err := s.api.UnsafeProducers(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, page.Items)
	entries, err := s.api.Audit(t.Context(), client.AuditQuery{Action: "producer.*"})
	require.NoError(t, err)
	require.Len(t, entries.Items, 2)
	require.Equal(t, []string{"root", "producer.clear", "root"}, []string{entries.Items[0].Actor, entries.Items[0].Action, entries.Items[0].Resource})
	require.Equal(t, []string{"system", "producer.mark", "root"}, []string{entries.Items[1].Actor, entries.Items[1].Action, entries.Items[1].Resource})
	require.Contains(t, string(entries.Items[0].Old), `"count":1`)
}

func TestLoop_BatchWithOneIsNotStored(t *testing.T) { // S4-82
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	_, err := s.api.Publish(t.Context(), sluice.DefaultNamespace, link("a", "t", "/1", ""), link("b", "t", "/2", "a"), link("c", "t", "/1", "b"))
	require.InDelta(t, 2, refusedLoop(t, err)["index"], 0)
	_, err = s.api.Event(t.Context(), sluice.DefaultNamespace, "a")
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	_, err = s.api.Publish(t.Context(), "nowhere", link("a", "t", "/1", "a"))
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err), "%v", err)
	page, err := s.api.UnsafeProducers(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, uint64(1), page.Items[0].Count)
}

// S4-82: of eight publishers at once none gets a second event of a chain in, and every loop counts.
func TestLoop_ConcurrentPublishersGetNoneThrough(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const publishers, rounds = 8, 12
	require.NoError(t, publishOne(t.Context(), s.api, link("root", "t", "/start", "")))
	var running sync.WaitGroup
	for i := range publishers {
		running.Go(func() {
			for n := range rounds {
				if err := goRound(t.Context(), s.api, fmt.Sprintf("m-%d-%d", i, n)); err != nil {
					t.Error(err)
				}
			}
			// Meanwhile it is cleared; that another publisher was faster is no error.
			switch err := s.api.ClearProducer(t.Context(), "root"); sluice.CodeOf(err) {
			case "", sluice.NotFound, sluice.Conflict:
			default:
				t.Error(err)
			}
		})
	}
	running.Wait()
	page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{Pattern: "/start"})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.Contains(t, s.must(t, http.StatusOK, "GET /metrics", "").text,
		fmt.Sprintf("sluice_event_loops_total{namespace=\"default\"} %d\n", publishers*rounds))
}

// goRound publishes an event that came of root, and what would be root again; that has to be refused
// as a loop. The first may be refused because of another publisher's mark.
func goRound(ctx context.Context, api *client.Client, id string) error {
	cause := id
	err := publishOne(ctx, api, link(id, "t", sluice.Path("/"+id), "root"))
	switch sluice.CodeOf(err) {
	case "":
	case sluice.EventLoopDetected:
		cause = "root"
	default:
		return err
	}
	err = publishOne(ctx, api, link("again-"+id, "t", "/start", cause))
	if e, ok := errors.AsType[*sluice.Error](err); !ok || e.Code != sluice.EventLoopDetected || e.Details["unsafe"] != nil {
		return fmt.Errorf("%s slipped through: %w", id, err)
	}
	return nil
}

// S4-82, decision 0014: NATS takes what it is given; what came of itself is not delivered.
func TestLoop_ByNATSIsNotDelivered(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook, other := hooktest.New(t, nil), hooktest.New(t, nil)
	subscribe(t, s.api, wish(hook.URL, `"id":"erp"`))
	subscribe(t, s.api, wish(other.URL, `"id":"other"`))
	js := dial(t, s.at.NATS)
	send := func(id, path, cause string) {
		msg := &nats.Msg{Subject: jsNames(t).EventsPrefix() + "default." + path, Header: nats.Header{"Nats-Msg-Id": {id}, "ce-type": {"t"}, "ce-source": {"/bot"}}}
		if cause != "" {
			msg.Header.Set("ce-causationid", cause)
		}
		_, err := js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	letters := func(want ...string) {
		eventually(t, func() bool {
			page, err := s.api.DeadLetters(t.Context(), "erp", client.DeadLettersQuery{Reason: sluice.Loop})
			require.NoError(t, err)
			var got []string
			for _, d := range page.Items {
				got = append(got, d.EventID)
			}
			return strings.Join(got, " ") == strings.Join(want, " ")
		}, "dead letters "+strings.Join(want, " "))
	}
	send("a", "x", "")
	send("b", "y", "a")
	hook.Wait(2)
	other.Wait(2)       // the mark that c sets holds b, too, for a subscription that has not come to it
	send("c", "x", "b") // the loop
	send("d", "x", "")
	letters("c")
	statusOf(t, s.api, "other", func(st sluice.Status) bool { return idle(st) && st.DeadLetters == 1 })
	delivery, err := s.api.Delivery(t.Context(), "erp", "c")
	require.NoError(t, err)
	require.Contains(t, delivery.Explanation, "it is part of an event loop")

	page, err := s.api.UnsafeProducers(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []any{"source:default:/bot", uint64(1)}, []any{page.Items[0].Producer, page.Items[0].Count}, "for two subscriptions")
	send("e", "z", "d") // held by the mark
	send("f", "z", "")
	letters("e", "c")
	stamped := link("g", "t", "/z", "d")
	stamped.Source = "/bot"
	require.NoError(t, publishOne(t.Context(), s.api, stamped), "who has the token is not the source that he names")
	eventually(t, func() bool { return len(hook.Requests()) == 5 }, "the others arrive")
	require.ElementsMatch(t, []string{"a", "b", "d", "f", "g"}, idsOf(hook.Requests()))

	require.NoError(t, s.api.ClearProducer(t.Context(), "source:default:/bot"))
	_, err = s.api.Redrive(t.Context(), "erp", client.RedriveSpec{IDs: []string{"e", "c"}})
	require.NoError(t, err)
	require.Equal(t, "e", idOf(hook.Wait(6)[5]))
	letters("c")
}

// S4-82: what one server found, the others know; chains are followed across servers.
func TestUnsafeProducer_MarkHoldsOnEveryServer(t *testing.T) {
	t.Parallel()
	shared := natstest.Listening(t)
	outside := func(c *config.Config) { c.NATS.URL = shared.ClientURL() }
	one, two := start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)
	require.NoError(t, publishOne(t.Context(), one.api, link("a", "t", "/1", "")))
	require.NoError(t, publishOne(t.Context(), two.api, link("b", "t", "/2", "a")))
	refusedLoop(t, publishOne(t.Context(), one.api, link("c", "t", "/1", "b")))
	eventually(t, func() bool {
		err := publishOne(t.Context(), two.api, link("d", "t", "/3", "a"))
		return sluice.CodeOf(err) == sluice.EventLoopDetected
	}, "the other one refuses")
	require.NoError(t, two.api.ClearProducer(t.Context(), "root"))
	eventually(t, func() bool { return publishOne(t.Context(), one.api, link("e", "t", "/3", "a")) == nil }, "the first one takes it")
}
