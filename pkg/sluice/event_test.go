package sluice_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestEvent_RepeatsTypeAndData(t *testing.T) {
	t.Parallel()
	first := sluice.Event{Type: "t", Data: []byte(`{"a": 1}`), Source: "/s"}
	for _, c := range []struct {
		ev   sluice.Event
		want bool
	}{
		{sluice.Event{Type: "t", Data: []byte(`{"a": 1}`)}, true},
		{sluice.Event{Type: "t", Data: []byte("{\n\"a\":1}")}, true},
		{sluice.Event{Type: "u", Data: []byte(`{"a": 1}`)}, false},
		{sluice.Event{Type: "t", Data: []byte(`{"a": 2}`)}, false},
		{sluice.Event{Type: "t"}, false},
		{sluice.Event{Data: []byte(`{"a": 1}`)}, false},
	} {
		require.Equal(t, c.want, c.ev.Repeats(&first), "%s", c.ev.Data)
		require.Equal(t, c.want, first.Repeats(&c.ev), "%s", c.ev.Data)
	}
	text := func(data string) *sluice.Event { return &sluice.Event{ContentType: "text/plain", Data: []byte(data)} }
	require.False(t, text("{ }").Repeats(text("{}")), "white space in text is part of it")
	require.False(t, text("a").Repeats(text("b")))
	untyped := sluice.Event{Type: sluice.DefaultType}
	require.True(t, untyped.Repeats(&sluice.Event{}), "what a publisher leaves out is filled in")
}

func TestEvent_IsJSONByItsContentType(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]bool{
		"": true, "application/json": true, "Application/JSON ; charset=utf-8": true, "text/json": true, "application/ld+json": true,
		"text/plain": false, "json": false, "application/jsonx": false,
	} {
		ev := sluice.Event{ContentType: contentType, Data: []byte("{}")}
		require.Equal(t, want, ev.IsJSON(), contentType)
		require.Equal(t, want, ev.JSONData() != nil, contentType)
	}
	require.Nil(t, (&sluice.Event{Data: []byte("{")}).JSONData())
}
