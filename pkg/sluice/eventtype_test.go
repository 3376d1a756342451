package sluice_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestTypeName_IsCleanText(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "order.placed", "a b", "ö", "\u00a0", "sysadmin", strings.Repeat("x", 256)} {
		require.NoError(t, sluice.CheckTypeName(name), name)
	}
	for _, name := range []string{"", "a*", "*", "\xff", "a\x1f", "a\x7f", "a\u0080", "a\u009f", strings.Repeat("x", 257)} {
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(sluice.CheckTypeName(name)), "%q", name)
	}
	require.Equal(t, sluice.Forbidden, sluice.CodeOf(sluice.CheckTypeName("sys.start"))) // S4-33
}

func TestEventType_IsChecked(t *testing.T) {
	t.Parallel()
	valid := func() sluice.EventType {
		return sluice.EventType{
			Namespace: "acme", Type: "order.placed", Description: strings.Repeat("x", sluice.MaxDescription),
			Schema:        json.RawMessage(strings.Repeat(" ", sluice.MaxSchema)),
			SummaryFields: append(many(63), strings.Repeat("x", 256)),
			StaticLabels:  map[string]string{strings.Repeat("k", 64): strings.Repeat("v", 256)},
		}
	}
	entry := valid()
	require.NoError(t, entry.Validate(), "all at its limit")
	for name, c := range map[string]struct {
		change func(*sluice.EventType)
		want   sluice.Code
	}{
		"no namespace":             {func(e *sluice.EventType) { e.Namespace = "" }, sluice.InvalidRequest},
		"no type":                  {func(e *sluice.EventType) { e.Type = "" }, sluice.InvalidRequest},
		"the server's type":        {func(e *sluice.EventType) { e.Type = "sys.x" }, sluice.Forbidden},
		"a long description":       {func(e *sluice.EventType) { e.Description += "x" }, sluice.InvalidRequest},
		"a large schema":           {func(e *sluice.EventType) { e.Schema = append(e.Schema, ' ') }, sluice.TooLarge},
		"many fields":              {func(e *sluice.EventType) { e.SummaryFields = many(65) }, sluice.InvalidRequest},
		"a nameless field":         {func(e *sluice.EventType) { e.SummaryFields = []string{""} }, sluice.InvalidRequest},
		"a long field":             {func(e *sluice.EventType) { e.SummaryFields = []string{strings.Repeat("x", 257)} }, sluice.InvalidRequest},
		"a field that is no text":  {func(e *sluice.EventType) { e.SummaryFields = []string{"\xff"} }, sluice.InvalidRequest},
		"a field twice":            {func(e *sluice.EventType) { e.SummaryFields = []string{"a", "b", "a"} }, sluice.InvalidRequest},
		"many labels":              {func(e *sluice.EventType) { e.StaticLabels = dict(33, 1) }, sluice.InvalidRequest},
		"a nameless label":         {func(e *sluice.EventType) { e.StaticLabels = map[string]string{"": "x"} }, sluice.InvalidRequest},
		"a long label":             {func(e *sluice.EventType) { e.StaticLabels = map[string]string{strings.Repeat("k", 65): "x"} }, sluice.InvalidRequest},
		"a long value of a label":  {func(e *sluice.EventType) { e.StaticLabels = dict(1, 257) }, sluice.InvalidRequest},
		"a value that is no text":  {func(e *sluice.EventType) { e.StaticLabels = map[string]string{"a": "\xff"} }, sluice.InvalidRequest},
		"many labels at the limit": {func(e *sluice.EventType) { e.StaticLabels = dict(32, 1) }, ""},
	} {
		entry := valid()
		c.change(&entry)
		require.Equal(t, c.want, sluice.CodeOf(entry.Validate()), name)
	}
}
