package filter_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func paid(data string) *sluice.Event {
	return &sluice.Event{
		Namespace: "acme", Path: "/orders/7", Seq: 12, ID: "o-7", Type: "order.paid", Source: "/shop", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Extensions: map[string]string{"region": "eu"}, Data: []byte(data),
	}
}

// Issue 18, item 10.
func TestTemplate_RendersValuesAsJSONOfTheServer(t *testing.T) {
	t.Parallel()
	const data = `{"total":118.50,"big":12345678901234567,"name":"a \"b\" <c>\n\u2028","list":[1,null,true],"z":{"b":1,"a":{}}}`
	for cel, want := range map[string]string{
		`{"b": event.data.total, "a": event.type}`: `{"a":"order.paid","b":118.5}`,
		`event.data.big`:                     `12345678901234567`,
		`{"text": "for " + event.data.name}`: `{"text":"for a \"b\" <c>\n\u2028"}`,
		`event.data.list`:                    `[1,null,true]`,
		`event.data.z`:                       `{"a":{},"b":1}`,
		`[event.time, event.seq, event.region, b"\x01", null]`: `["2026-01-02T03:04:05Z",12,"eu","AQ==",null]`,
		`event.data.list.map(x, x == null ? 0 : 1)`:            `[1,0,1]`,
		`has(event.data.x) ? event.data.x : "none"`:            `"none"`,
		`duration("90s")`: `"1m30s"`,
	} {
		template, err := filter.CompileTemplate(&sluice.Body{CEL: cel})
		require.NoError(t, err, cel)
		for range 3 {
			body, contentType, err := template.Render(paid(data), 1<<20)
			require.NoError(t, err, cel)
			require.JSONEq(t, want, string(body), cel)
			require.True(t, json.Valid(body))
			require.Equal(t, "application/json", contentType)
		}
	}
	template, err := filter.CompileTemplate(&sluice.Body{CEL: `event.data.z`, ContentType: "application/vnd.a+json"})
	require.NoError(t, err)
	body, contentType, err := template.Render(paid(data), 1<<20)
	require.NoError(t, err)
	first := string(body)
	for range 20 {
		body, _, err = template.Render(paid(data), 1<<20)
		require.NoError(t, err)
		require.Equal(t, first, string(body), "members are sorted: every attempt has the same bytes")
	}
	require.Equal(t, "application/vnd.a+json", contentType)
}

func TestTemplate_ChatTextIsEscaped(t *testing.T) {
	t.Parallel()
	hostile := `{"note":"<!channel> <https://evil.example|our bank> & @everyone \"}"}`
	for preset, want := range map[sluice.BodyPreset]string{
		sluice.BodySlack:   `{"text":"&lt;!channel&gt; &lt;https://evil.example|our bank&gt; &amp; @everyone \"}"}`,
		sluice.BodyDiscord: `{"content":"<!channel> <https://evil.example|our bank> & @everyone \"}","allowed_mentions":{"parse":[]}}`,
		"":                 `<!channel> <https://evil.example|our bank> & @everyone "}`,
	} {
		b := sluice.Body{CEL: "event.data.note", Preset: preset}
		if preset == "" {
			b.ContentType = "text/plain"
		}
		template, err := filter.CompileTemplate(&b)
		require.NoError(t, err)
		body, _, err := template.Render(paid(hostile), 1<<20)
		require.NoError(t, err)
		if preset == "" {
			require.Equal(t, want, string(body))
			continue
		}
		require.JSONEq(t, want, string(body))
	}
	template, err := filter.CompileTemplate(&sluice.Body{Preset: sluice.BodySlack})
	require.NoError(t, err)
	body, _, err := template.Render(paid(""), 1<<20)
	require.NoError(t, err)
	require.JSONEq(t, `{"text":"order.paid on /orders/7"}`, string(body))
	long, err := filter.CompileTemplate(&sluice.Body{Preset: sluice.BodyDiscord, CEL: "event.data.x"})
	require.NoError(t, err)
	body, _, err = long.Render(paid(`{"x":"`+strings.Repeat("é", 3000)+`"}`), 1<<20)
	require.NoError(t, err)
	require.Contains(t, string(body), strings.Repeat("é", 1999)+"…\"", "the service takes 2,000 characters")
}

func TestTemplate_FailsWithoutABody(t *testing.T) {
	t.Parallel()
	for cel, want := range map[string]string{
		`event.data.x.y`:      "policy.body.cel: no such key: x",
		`1 / event.data.zero`: "policy.body.cel: division by zero",
		`{"a": 0.0 / 0.0}`:    "policy.body.cel: the number NaN has no JSON",
		`event.data.list.map(x, event.data.list.map(y, event.data.list.map(z, x + y + z)))`: "policy.body.cel: the expression costs more than 10000 on this event; simplify it",
		`type(1)`: "policy.body.cel: a value of the type type has no JSON",
	} {
		template, err := filter.CompileTemplate(&sluice.Body{CEL: cel})
		require.NoError(t, err, cel)
		_, _, err = template.Render(paid(`{"zero":0,"list":[`+strings.Repeat("1,", 60)+`1]}`), 1<<20)
		require.EqualError(t, err, want)
		require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err))
	}
	double, err := filter.CompileTemplate(&sluice.Body{CEL: `[event.data, event.data, event.data]`})
	require.NoError(t, err)
	_, _, err = double.Render(paid(`["`+strings.Repeat("x", 500)+`"]`), 1000)
	require.Equal(t, sluice.TooLarge, sluice.CodeOf(err))
	text, err := filter.CompileTemplate(&sluice.Body{CEL: `event.data`, Preset: sluice.BodySlack})
	require.NoError(t, err, "it may be a string")
	_, _, err = text.Render(paid(`{}`), 1000)
	require.EqualError(t, err, "policy.body.cel: the expression yields map on this event; it must yield a string")
	for cel, says := range map[string]string{"1": "policy.body.cel: the expression yields int; it must yield string", "event.": "policy.body.cel: line 1, column 7"} {
		_, err = filter.CompileTemplate(&sluice.Body{CEL: cel, Preset: sluice.BodySlack})
		require.ErrorContains(t, err, says)
	}
}
