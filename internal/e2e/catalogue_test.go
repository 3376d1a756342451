package e2e_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// example is an event type of the example catalogue, with an example of its data.
type example struct {
	client.EventTypeSpec

	Type string `json:"type"`
}

func (e example) valid(t *testing.T) map[string]any {
	t.Helper()
	var schema struct {
		Required []string         `json:"required"`
		Examples []map[string]any `json:"examples"`
	}
	require.NoError(t, json.Unmarshal(e.Schema, &schema))
	require.NotEmpty(t, schema.Required, e.Type)
	require.Len(t, schema.Examples, 1, e.Type)
	return schema.Examples[0]
}

func examples(t *testing.T) (all []example) {
	t.Helper()
	files, err := filepath.Glob("../../docs/examples/catalogue/*.json")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var types []example
		require.NoError(t, json.Unmarshal(text, &types), file)
		all = append(all, types...)
	}
	return all
}

func strictAcme(t *testing.T, api *client.Client) {
	t.Helper()
	ns, err := api.PutNamespace(t.Context(), "acme", client.NamespaceSpec{Catalogue: sluice.CatalogueStrict})
	require.NoError(t, err)
	require.Equal(t, sluice.CatalogueStrict, ns.Catalogue)
}

// S0-16, S4-16, S4-34…40: the applications' types are data, and the example catalogue has them.
func TestCatalogue_ExampleIsEnforced(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	strictAcme(t, api)
	known, resources := map[string]bool{}, map[string]bool{}
	for _, e := range examples(t) {
		known[e.Type] = true
		resources[e.StaticLabels["resourcetype"]] = true
		_, err := api.PutEventType(t.Context(), "acme", e.Type, e.EventTypeSpec, 0)
		require.NoError(t, err, e.Type)
		data := e.valid(t)
		publish := func() error {
			text, err := json.Marshal(data)
			require.NoError(t, err)
			_, err = api.Publish(t.Context(), "acme", sluice.Event{Path: "/x", Type: e.Type, Data: text})
			return err
		}
		require.NoError(t, publish(), e.Type)
		for name := range data {
			data[name] = map[string]any{} // which none of them is, or not so
		}
		require.Equal(t, sluice.InvalidEventData, sluice.CodeOf(publish()), e.Type)
	}
	for name := range strings.FieldsSeq(`fact_assert fact_retract contradiction_detected card_refreshed system.start system.shutdown module.enabled module.disabled
		project.created project.updated project.deleted file.uploaded file.deleted map.created map.updated map.calibrated map.tilesRebuilt
		sketch.created sketch.updated sketch.deleted automation.created automation.start automation.end automation.error`) {
		require.True(t, known[name], name)
	}
	for name := range strings.FieldsSeq("project map tile file sketch module automation template") {
		require.True(t, resources[name], "no event is about a %s", name)
	}
	page, err := api.EventTypes(t.Context(), "acme", "")
	require.NoError(t, err)
	require.Len(t, page.Items, len(known))
}

const orderSchema = `{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}}`

func putType(t *testing.T, api *client.Client, namespace, name string, spec client.EventTypeSpec) {
	t.Helper()
	_, err := api.PutEventType(t.Context(), namespace, name, spec, 0)
	require.NoError(t, err)
}

// S4-40, S4-64, S4-74, C15: what a strict namespace does not know is refused, whole batches of it.
func TestCatalogue_StrictNamespaceRefusesUnknownTypes(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	strictAcme(t, s.api)
	putType(t, s.api, "acme", "order.placed", client.EventTypeSpec{Schema: json.RawMessage(orderSchema)})
	good := `{"path":"/o/1","type":"order.placed","data":{"total":1}}`
	s.must(t, 201, "POST /v1/namespaces/acme/events", good)
	for _, tt := range []struct{ name, body, code, pointer string }{
		{"an unknown type", `{"path":"/o/1","type":"order.plcaed","data":{"total":1}}`, "unknown_event_type", ""},
		{"no type", `{"path":"/o/1","data":{"total":1}}`, "unknown_event_type", ""},
		{"data of another form", `{"path":"/o/1","type":"order.placed","data":{"total":"` + strings.Repeat("x", 200) + `"}}`, "invalid_event_data", "/total"},
		{"one of a batch", `[` + good + `,` + good + `,{"path":"/o/2","type":"order.placed","data":{"total":null}}]`, "invalid_event_data", "/total"},
	} {
		got := s.must(t, 422, "POST /v1/namespaces/acme/events", tt.body)
		require.Equal(t, tt.code, got.field(t, "error.code"), tt.name)
		require.NotContains(t, got.text, strings.Repeat("x", 101), tt.name)
		if tt.pointer != "" {
			require.Equal(t, tt.pointer, got.field(t, "error.details.pointer"), tt.name)
		}
	}
	require.InDelta(t, 2, s.must(t, 422, "POST /v1/namespaces/acme/events", `[`+good+`,`+good+`,{"path":"/o/2","type":"other"}]`).field(t, "error.details.index"), 0)
	ns, err := s.api.Namespace(t.Context(), "acme")
	require.NoError(t, err)
	require.EqualValues(t, 1, ns.Usage.Events, "nothing of a batch with a fault is stored")

	// It is open: its catalogue is documentation.
	_, err = s.api.PutNamespace(t.Context(), "acme", client.NamespaceSpec{})
	require.NoError(t, err)
	s.must(t, 201, "POST /v1/namespaces/acme/events", `{"path":"/o/1","type":"order.placed","data":{"total":"x"}}`)
	s.must(t, 403, "POST /v1/namespaces/acme/events", `{"path":"/o/1","type":"sys.start"}`) // S4-33
}

// S4-64: filters name types that there are; patches of the rest are not held up by those that left.
func TestCatalogue_StrictFiltersNameKnownTypes(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	strictAcme(t, s.api)
	putType(t, s.api, "acme", "order.placed", client.EventTypeSpec{})
	body := func(types string) string {
		return `{"namespace":"acme","pattern":"/**","endpoint":{"url":"http://127.0.0.1:1/hook"},"enabled":false,"filter":{"types":` + types + `}}`
	}
	for _, types := range []string{`["order.plcaed"]`, `["order.placed","invoice.*"]`} {
		got := s.must(t, 422, "PUT /v1/subscriptions/s", body(types))
		require.Equal(t, "unknown_event_type", got.field(t, "error.code"), types)
	}
	s.must(t, 201, "PUT /v1/subscriptions/s", body(`["order.*","subscription.*"]`))
	require.Equal(t, "unknown_event_type", s.must(t, 422, "PATCH /v1/subscriptions/s", `{"filter":{"types":["nothing"]}}`).field(t, "error.code"))
	s.must(t, 200, "PATCH /v1/subscriptions/s", `{"filter":{"types":["order.placed"]}}`)
	require.NoError(t, s.api.DeleteEventType(t.Context(), "acme", "order.placed"))
	s.must(t, 200, "PATCH /v1/subscriptions/s", `{"description":"x"}`)
}

// S4-64: what came by NATS and is not as the catalogue says is not sent, in any way.
func TestCatalogue_InvalidEventByNATSIsADeadLetter(t *testing.T) {
	t.Parallel()
	api, at := serve(t, nil)
	strictAcme(t, api)
	putType(t, api, "acme", "order.placed", client.EventTypeSpec{Schema: json.RawMessage(orderSchema)})
	down := refusing("parked-1")
	hook := hooktest.New(t, status(http.StatusInternalServerError, down.refuses))
	sub := subscribe(t, api, wish(hook.URL, `"namespace":"acme"`, `"policy":{"retry":{"preset":"custom","steps":["1s"],"max_attempts":30}}`))
	js := dial(t, at.NATS)
	publish := func(id, path, kind, data string) {
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: jsNames(t).EventsPrefix() + "acme." + path, Header: nats.Header{"Nats-Msg-Id": {id}, "ce-type": {kind}}, Data: []byte(data)})
		require.NoError(t, err)
	}
	publish("unknown", "a", "other", `{"total":1}`)
	publish("plain", "a", "", `hello`)
	publish("broken", "a", "order.placed", `{"total":"1"}`)
	publish("good", "a", "order.placed", `{"total":1}`)
	publish("parked-1", "b", "order.placed", `{"total":1}`)
	statusOf(t, api, sub.ID, func(st sluice.Status) bool { return st.Parked == 1 && st.DeadLetters == 3 })
	publish("parked-2", "b", "order.placed", `{}`) // it is read back
	down.accept()
	statusOf(t, api, sub.ID, func(st sluice.Status) bool { return idle(st) && st.DeadLetters == 4 })
	for _, r := range hook.Requests() {
		require.Contains(t, []string{"good", "parked-1"}, idOf(r))
	}
	letters, err := api.DeadLetters(t.Context(), sub.ID, client.DeadLettersQuery{})
	require.NoError(t, err)
	reasons := map[string]string{}
	for _, l := range letters.Items {
		require.Equal(t, sluice.Malformed, l.Reason)
		reasons[l.EventID] = l.LastError
	}
	require.Contains(t, reasons["unknown"], `type "other" is not in the strict catalogue`)
	require.Contains(t, reasons["plain"], `type "message" is not in the strict catalogue`)
	require.Contains(t, reasons["broken"], "at /total")
	require.Contains(t, reasons["parked-2"], "missing property 'total'")

	// When the catalogue is mended, a replay sends them.
	putType(t, api, "acme", "order.placed", client.EventTypeSpec{})
	rep, err := api.Replay(t.Context(), sub.ID, client.ReplayRequest{Types: []string{"order.placed"}})
	require.NoError(t, err)
	eventually(t, func() bool {
		now, err := api.GetReplay(t.Context(), sub.ID, rep.ID)
		return err == nil && now.State == sluice.ReplayDone && now.Sent == 4 && now.Dead == 0
	}, "the replay sends all four")
}

// C10, S2-113, S2-114: what is sent, hashed and signed is a summary or nothing, and where the rest is.
func TestProjection_SendsASummaryOrNothing(t *testing.T) {
	t.Parallel()
	const card = "4111-1111-1111-1111" // long: times and signatures hold any few digits now and then
	api, at := serve(t, nil)
	hook := hooktest.New(t, nil)
	putType(t, api, sluice.DefaultNamespace, "order.placed", client.EventTypeSpec{SummaryFields: []string{"total"}})
	secrets := map[string]string{}
	for _, envelope := range []string{"cloudevents", "cloudevents-binary", "fact", "attempt"} {
		for _, projection := range []string{"full", "summary", "none"} {
			id := envelope + "-" + projection
			sub := subscribe(t, api, wish(hook.URL+"/"+id, `"id":"`+id+`"`, `"policy":{"envelope":"`+envelope+`","projection":"`+projection+`"}`))
			secrets[id] = sub.Endpoint.Secret
		}
	}
	stored, err := api.Publish(t.Context(), sluice.DefaultNamespace,
		sluice.Event{ID: "o", Path: "/o", Type: "order.placed", Data: []byte(`{"card":"` + card + `","total":1.50}`), Extensions: map[string]string{"region": "eu"}})
	require.NoError(t, err)
	want := map[string]string{"full": `{"card":"` + card + `","total":1.50}`, "summary": `{"total":1.50}`, "none": ``}
	for _, r := range hook.Wait(12) {
		id := r.Path[1:]
		envelope, projection := id[:strings.LastIndex(id, "-")], id[strings.LastIndex(id, "-")+1:]
		d := receive(t, &webhook.Receiver{Secrets: []string{secrets[id]}, Envelope: webhook.Envelope(envelope)}, r)
		data := strings.TrimPrefix(string(d.Data), "null")
		require.Equal(t, want[projection], data, id)
		if projection == "full" {
			require.NotContains(t, d.Extensions, "dataref", id)
			require.NotContains(t, string(r.Body), `"dataref"`, id)
			continue
		}
		require.NotContains(t, string(r.Body), card, id)
		ref := at.HTTP + fmt.Sprintf("/v1/namespaces/default/events/%d", stored[0].Seq)
		if strings.HasPrefix(envelope, "cloudevents") {
			require.Equal(t, ref, d.Extensions["dataref"], id)
			require.Equal(t, "eu", d.Extensions["region"], id)
		} else {
			require.Contains(t, string(r.Body), `"dataref":"`+ref+`"`, id)
		}
		hash := fmt.Sprintf("%x", sha256.Sum256(r.Body))
		eventually(t, func() bool {
			known, err := api.Delivery(t.Context(), id, "o")
			return err == nil && len(known.Attempts) == 1 && known.Attempts[0].PayloadHash == hash
		}, "the hash is of what was sent")
	}
	whole, err := api.Event(t.Context(), "default", strconv.FormatUint(stored[0].Seq, 10))
	require.NoError(t, err)
	require.Equal(t, want["full"], string(whole.Data), "where dataref leads, all of it is")
}

// Labels of a type count as those of its events; the event's own win.
func TestLabels_OfATypeCountForItsEvents(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	hook := hooktest.New(t, nil)
	putType(t, api, "default", "map.updated", client.EventTypeSpec{StaticLabels: map[string]string{"area": "maps"}})
	sub := subscribe(t, api, wish(hook.URL, `"filter":{"labels":{"area":["maps"]}}`, `"policy":{"ordering":"all"}`))
	stored, err := api.Publish(t.Context(), "default",
		sluice.Event{ID: "static", Path: "/m", Type: "map.updated"},
		sluice.Event{ID: "other type", Path: "/m", Type: "map.created"},
		sluice.Event{ID: "own extension", Path: "/m", Type: "map.updated", Extensions: map[string]string{"area": "files"}},
		sluice.Event{ID: "own data", Path: "/m", Type: "map.updated", Data: []byte(`{"area":"files"}`)},
		sluice.Event{ID: "own and right", Path: "/m", Type: "map.created", Data: []byte(`{"area":"maps"}`)},
	)
	require.NoError(t, err)
	statusOf(t, api, sub.ID, func(st sluice.Status) bool { return idle(st) && st.AckFloor == stored[4].Seq })
	require.ElementsMatch(t, []string{"static", "own%20and%20right"}, idsOf(hook.Wait(2)))
	d, err := api.Delivery(t.Context(), sub.ID, "own data")
	require.NoError(t, err)
	require.Contains(t, d.Explanation, "labels")
}

// S4-34, S4-35: the server tells when it starts and ends, and what becomes of namespaces.
func TestSystemEvents_CoverServerAndNamespaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(during func(api *client.Client)) {
		s := startWith(t, dir, nil, app.Options{Version: "1.2.3"})
		during(s.api)
		s.stop(t)
	}
	run(func(api *client.Client) {
		strictAcme(t, api)
		_, err := api.PutNamespace(t.Context(), "acme", client.NamespaceSpec{Description: "x"})
		require.NoError(t, err)
		_, err = api.PutNamespace(t.Context(), "acme", client.NamespaceSpec{Description: "x"}) // nothing changes
		require.NoError(t, err)
		putType(t, api, "acme", "t", client.EventTypeSpec{})
		require.NoError(t, api.DeleteNamespace(t.Context(), "acme"))
		strictAcme(t, api)
		page, err := api.EventTypes(t.Context(), "acme", "")
		require.NoError(t, err)
		require.Empty(t, page.Items, "a namespace takes its types along")
	})
	run(func(api *client.Client) {
		page, err := api.Events(t.Context(), "default", client.EventsQuery{Pattern: "/_sys/**", Limit: 100})
		require.NoError(t, err)
		var told []string
		for _, ev := range page.Items {
			told = append(told, ev.Type)
			require.Equal(t, sluice.SystemSource, ev.Source)
			if strings.HasPrefix(ev.Type, "sys.") {
				require.True(t, strings.HasPrefix(string(ev.Path), "/_sys/server/"))
				require.JSONEq(t, `{"version":"1.2.3","replica":"`+strings.TrimPrefix(string(ev.Path), "/_sys/server/")+`"}`, string(ev.Data))
			} else {
				require.Equal(t, sluice.Path("/_sys/namespaces/acme"), ev.Path)
			}
		}
		require.Equal(t, []string{"sys.start", "namespace.created", "namespace.updated", "namespace.deleted", "namespace.created", "sys.shutdown", "sys.start"}, told)

		// The server's own events are known in a strict namespace.
		hook := hooktest.New(t, nil)
		subscribe(t, api, wish(hook.URL, `"namespace":"acme"`, `"pattern":"/_sys/**"`, `"id":"s"`, `"filter":{"types":["subscription.*"]}`))
		_, err = api.PauseSubscription(t.Context(), "s")
		require.NoError(t, err)
		_, err = api.ResumeSubscription(t.Context(), "s")
		require.NoError(t, err)
		require.Equal(t, "subscription.created", parse(t, hook.Wait(3)[0]).Type)
	})
}

// A catalogue holds after a restart, from the first request on, and on every replica.
func TestCatalogue_HoldsAfterRestartAndOnEveryReplica(t *testing.T) {
	t.Parallel()
	first := start(t, t.TempDir(), func(c *config.Config) { c.Secrets.Key = sharedKey })
	strictAcme(t, first.api)
	putType(t, first.api, "acme", "order/placed é", client.EventTypeSpec{Schema: json.RawMessage(orderSchema)})
	second := start(t, t.TempDir(), func(c *config.Config) {
		c.NATS.URL, c.NATS.User, c.NATS.Password = first.at.NATS, tester.Name, testerPassword
	})
	_, err := second.api.Publish(t.Context(), "acme", sluice.Event{Path: "/a", Type: "order/placed é", Data: []byte(`{}`)})
	require.Equal(t, sluice.InvalidEventData, sluice.CodeOf(err), "what was there when it started")
	_, err = second.api.Publish(t.Context(), "acme", sluice.Event{Path: "/a", Type: "other"})
	require.Equal(t, sluice.UnknownEventType, sluice.CodeOf(err))
	putType(t, first.api, "acme", "other", client.EventTypeSpec{})
	eventually(t, func() bool {
		_, err := second.api.Publish(t.Context(), "acme", sluice.Event{Path: "/a", Type: "other"})
		return err == nil
	}, "a type that is put on one replica is known on the other")
	require.NoError(t, first.api.DeleteEventType(t.Context(), "acme", "other"))
	began := time.Now()
	eventually(t, func() bool {
		_, err := second.api.Publish(t.Context(), "acme", sluice.Event{Path: "/a", Type: "other"})
		return sluice.CodeOf(err) == sluice.UnknownEventType
	}, "and one that is deleted is not")
	t.Logf("the other replica knew after %v", time.Since(began))
}
