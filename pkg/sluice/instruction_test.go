package sluice_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S2-37, S2-42: what an instruction publishes is what its maker could publish through the API.
func TestAction_PublishesOnlyEventsTheAPITakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*sluice.Action)
		want   sluice.Code
	}{
		"as it is":               {func(*sluice.Action) {}, ""},
		"as much data as may be": {func(a *sluice.Action) { a.Data = []byte(`"` + strings.Repeat("x", sluice.MaxActionData-2) + `"`) }, ""},
		"a line in an attribute": {func(a *sluice.Action) { a.Extensions = map[string]string{"room": "a\nb"} }, sluice.InvalidRequest},
		"no path":                {func(a *sluice.Action) { a.Path = "" }, sluice.InvalidRequest},
		"a pattern":              {func(a *sluice.Action) { a.Path = "/a/*" }, sluice.InvalidRequest},
		"the server's path":      {func(a *sluice.Action) { a.Path = "/_sys/x" }, sluice.Forbidden},
		"no type":                {func(a *sluice.Action) { a.Type = "" }, sluice.InvalidRequest},
		"the server's type":      {func(a *sluice.Action) { a.Type = "sys.start" }, sluice.Forbidden},
		"a control character":    {func(a *sluice.Action) { a.Source = "a\nb" }, sluice.InvalidRequest},
		"a strange attribute":    {func(a *sluice.Action) { a.Extensions = map[string]string{"Big": "x"} }, sluice.InvalidRequest},
		"an attribute for id":    {func(a *sluice.Action) { a.Extensions = map[string]string{"id": "x"} }, sluice.InvalidRequest},
		"an attribute for path":  {func(a *sluice.Action) { a.Extensions = map[string]string{"path": "/x"} }, sluice.InvalidRequest},
		"a lot of data":          {func(a *sluice.Action) { a.Data = []byte(`"` + strings.Repeat("x", sluice.MaxActionData) + `"`) }, sluice.TooLarge},
	} {
		a := sluice.Action{Path: "/lamps/1", Type: "lamp.on", Extensions: map[string]string{"room": "hall"}, Data: []byte(`{"on":true}`)}
		c.change(&a)
		require.Equal(t, c.want, sluice.CodeOf(a.Validate()), name)
	}
}

func TestAction_EventHasTheActionsFields(t *testing.T) {
	t.Parallel()
	var a sluice.Action
	require.NoError(t, json.Unmarshal([]byte(`{"path":"/lamps/1","type":"lamp.on","source":"/timer","subject":"1","extensions":{"room":"hall"},"data":{"on": true}}`), &a))
	e := a.Event("acme", "id-1")
	require.Equal(t, sluice.Event{
		Namespace: "acme", ID: "id-1", Path: "/lamps/1", Type: "lamp.on", Source: "/timer", Subject: "1",
		Extensions: map[string]string{"room": "hall"}, Data: []byte(`{"on": true}`),
	}, e)
	e.Extensions["room"] = "other"
	require.Equal(t, "hall", a.Extensions["room"])

	text := sluice.Action{Path: "/t", Type: "t", DataContentType: "text/plain", Data: []byte(`"hello"`)}
	require.Equal(t, "hello", string(text.Event("acme", "i").Data))
	quoted := sluice.Action{Path: "/t", Type: "t", Data: []byte(`"hello"`)}
	require.Equal(t, `"hello"`, string(quoted.Event("acme", "i").Data))
	require.ErrorContains(t, (&sluice.Action{Type: "t"}).Validate(), "needs a path and a type")
}

func TestInstructionID_FitsAKey(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "wake-up_7", strings.Repeat("x", 64)} {
		require.NoError(t, sluice.CheckInstructionID(sluice.KindAppointment, id), id)
	}
	for _, id := range []string{"", "a.b", "a b", "*", ">", "a/b", "ä", "=", "a@b", "a+b", strings.Repeat("x", 65)} {
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(sluice.CheckInstructionID(sluice.KindWatch, id)), id)
	}
}

// S2-39: "ok", or the code of what went wrong.
func TestOutcome_IsOkOrACode(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ok", model.DispatchOutcome(nil))
	require.Equal(t, "forbidden", model.DispatchOutcome(sluice.Errorf(sluice.Forbidden, "no")))
	require.Equal(t, "internal", model.DispatchOutcome(json.Unmarshal([]byte("x"), new(int))))
}

func TestAttribute_IsCleanText(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", " ", "~", "ä", "\u00a0", strings.Repeat("x", 4096)} {
		require.NoError(t, sluice.CheckAttribute("a", value), "%q", value)
	}
	for _, value := range []string{"\x00", "\x1f", "\x7f", "\u0080", "\u009f", "\xff", strings.Repeat("x", 4097)} {
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(sluice.CheckAttribute("a", value)), "%q", value)
	}
	require.NoError(t, sluice.CheckExtension("a1", "x"))
	for _, name := range []string{"", "data", "A", "a_b"} {
		require.ErrorContains(t, sluice.CheckExtension(name, "x"), "use names of a-z and 0-9", name)
	}
	noID := sluice.Event{Path: "/a", Type: "t"}
	require.ErrorContains(t, noID.Check(), "event id")
}

func TestEvent_TellsWhenItIsDelivered(t *testing.T) {
	t.Parallel()
	at, says, err := (&sluice.Event{}).TellsDeliverAt()
	require.Equal(t, []any{true, false, nil}, []any{at.IsZero(), says, err})
	at, says, err = (&sluice.Event{Extensions: map[string]string{"deliverat": "2026-01-31T08:00:00Z"}}).TellsDeliverAt()
	require.NoError(t, err)
	require.True(t, says)
	require.Equal(t, int64(1769846400), at.Unix())
	_, says, err = (&sluice.Event{Extensions: map[string]string{"deliverat": "soon"}}).TellsDeliverAt()
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
	require.False(t, says)
}
