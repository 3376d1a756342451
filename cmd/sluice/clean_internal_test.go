package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/sluice-io/sluice/internal/terminal"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// hostile is what a receiver, a publisher or an owner could choose: a title, a colour, another row, a deletion, another order.
const hostile = "x\x1b]0;pwned\a\x1b[31m\r\nFAKE row\tcell\u0085FAKE\u2028FAKE\u009b2J\x7f\u061c\u200f\u202a\u202e\u2066\u2069\x00z"

// requireClean fails if a terminal would obey some of the output, or sees a forged line.
func requireClean(t *testing.T, name, output string) {
	t.Helper()
	for _, r := range output {
		require.False(t, r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)), "%s: %U in %q", name, r, output)
	}
	for line := range strings.Lines(output) {
		require.False(t, strings.HasPrefix(strings.TrimLeft(line, "\"\\ "), "FAKE"), "%s: a line of its own: %q", name, output)
	}
}

// fill sets every text in a value to the hostile one, with one element in each list and map.
func fill(v reflect.Value, depth int) {
	if depth > 8 || v.CanAddr() && fillKnown(v) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth+1)
			}
		}
	default:
		fillScalar(v)
	}
}

func fillScalar(v reflect.Value) {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(hostile)
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.Kind() == reflect.Interface:
		v.Set(reflect.ValueOf(any(hostile)))
	case v.CanInt() || v.CanUint() || v.CanFloat():
		v.Set(reflect.ValueOf(2).Convert(v.Type()))
	}
}

// fillKnown fills what has a form of its own, and reports whether the value was such.
func fillKnown(v reflect.Value) bool {
	switch target := v.Addr().Interface().(type) {
	case *time.Time:
		*target = time.Unix(1777636800, 0)
	case *json.RawMessage:
		*target, _ = json.Marshal(map[string]string{"a": hostile})
	case *sluice.Event:
		*target = sluice.Event{Seq: 1, ID: hostile, Source: hostile, Type: hostile, Path: "/p", Subject: hostile, Time: time.Unix(1777636800, 0), Data: []byte(`"x"`)}
	case json.Unmarshaler, encoding.TextUnmarshaler: // of a closed set
		if v.CanInt() || v.CanUint() {
			v.Set(reflect.ValueOf(1).Convert(v.Type()))
		}
	default:
		return false
	}
	return true
}

// answerOf returns the JSON of a filled value: as it is, or in the list of that name.
func answerOf(t *testing.T, list string, value any) []byte {
	t.Helper()
	target := reflect.New(reflect.TypeOf(value))
	fill(target.Elem(), 0)
	reply := target.Interface()
	if list != "" {
		reply = map[string]any{list: []any{reply}}
	}
	text, err := json.Marshal(reply)
	require.NoError(t, err)
	return text
}

// Every command that prints what others chose prints nothing that a terminal obeys, for people and for programs.
func TestTables_PassNoControlCharacters(t *testing.T) {
	t.Parallel()
	for command, answer := range map[string]struct {
		list  string
		value any
	}{
		"acl ls n":               {"acl", sluice.ACL{}},
		"acl set n user:a admin": {"", sluice.ACL{}},
		"principal ls":           {"principals", sluice.Profile{}},
		"principal set user:a --clearance INTERNAL --yes": {"", sluice.Profile{}},
		"erase n":                  {"tombstones", sluice.Tombstone{}},
		"appointment ls":           {"appointments", sluice.Appointment{}},
		"appointment show a":       {"", sluice.Appointment{}},
		"audit":                    {"entries", sluice.LedgerEntry{}},
		"consumers s":              {"consumers", sluice.WakeConsumer{}},
		"consumers s /a":           {"", sluice.WakeConsumer{}},
		"dead ls s":                {"dead_letters", client.DeadLetter{}},
		"dead show s e":            {"", client.DeadLetter{}},
		"dead redrive s e":         {"", client.Redrive{}},
		"deliveries s":             {"deliveries", client.Delivery{}},
		"deliveries s e":           {"", client.Delivery{}},
		"events ls --oldest-first": {"events", sluice.Event{}},
		"events get e":             {"", sluice.Event{}},
		"grant ls":                 {"grants", sluice.Grant{}},
		"grant show g":             {"", sluice.Grant{}},
		"grant revoke g --yes":     {"", sluice.Grant{}},
		"grant create user:a * --verbs read --for 1h": {"", client.Minted{}},
		"whoami":                  {"", client.Identity{}},
		"keys ls":                 {"keys", sluice.SigningKey{}},
		"secrets status":          {"", sluice.Sealing{}},
		"ns ls":                   {"namespaces", sluice.Namespace{}},
		"ns show n":               {"", sluice.Namespace{}},
		"producers ls":            {"producers", sluice.Unsafe{}},
		"schedule ls":             {"scheduled", client.ScheduledEvent{}},
		"schedule show e":         {"", client.ScheduledEvent{}},
		"state":                   {"", client.StatePage{}},
		"sub ls":                  {"subscriptions", sluice.Subscription{}},
		"sub show s":              {"", sluice.Subscription{}},
		"sub status s":            {"", sluice.Status{}},
		"problems":                {"problems", sluice.Problem{}},
		"problems show p":         {"", sluice.Problem{}},
		"problems ack p":          {"", sluice.Problem{}},
		"overview":                {"", sluice.Overview{}},
		"sub stats s":             {"", sluice.Statistics{}},
		"status":                  {"subscriptions", sluice.SubscriptionHealth{}},
		"sub test s":              {"", sluice.Attempt{}},
		"sub replays s":           {"replays", sluice.Replay{}},
		"sub replays s r":         {"", sluice.Replay{}},
		"ticket":                  {"", client.FeedTicket{}},
		"portal link --grant g":   {"", client.PortalLink{}},
		"types ls":                {"event_types", sluice.EventType{}},
		"types show a":            {"", sluice.EventType{}},
		"watch ls":                {"watches", sluice.Watch{}},
		"watch show w":            {"", sluice.Watch{}},
		"watch test --pattern /a": {"", sluice.WatchTrial{}},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			text := answerOf(t, answer.list, answer.value)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
			defer server.Close()
			for _, form := range []string{"table", "json"} {
				status, stdout, stderr := runUntil(t.Context(), "", append(strings.Fields(command), "-o", form, "--server", server.URL)...)
				if command != "sub test s" {
					require.Zero(t, status, stderr)
				}
				require.NotEmpty(t, stdout)
				requireClean(t, command, stdout+stderr)
				require.Equal(t, form == "json", json.Valid([]byte(stdout)), stdout)
				require.NotContains(t, stdout, "%!", "a format that does not suit its argument")
			}
		})
	}
}

// A server's message is quoted as harmlessly, with its code and the request's id; JSON for programs says the same.
func TestErrors_QuoteHarmlessly(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(map[string]any{
		"ok": false, "request_id": hostile, "error": map[string]any{"code": "not_found", "message": hostile, "details": map[string]any{hostile: hostile}},
	})
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(body)
	}))
	defer server.Close()
	for _, command := range []string{"sub ls", "pub /a {}", "sub rm a b --yes", "doctor", "feed", "stream info /a", "listen --forward http://127.0.0.1:1/"} {
		for _, form := range []string{"table", "json"} {
			status, stdout, stderr := runUntil(t.Context(), "", append(strings.Fields(command), "-o", form, "--server", server.URL, "--token", "t")...)
			require.NotZero(t, status)
			requireClean(t, command, stdout+stderr)
		}
	}
	_, _, stderr := runUntil(t.Context(), "", "sub", "ls", "-o", "json", "--server", server.URL)
	var told terminal.Failure
	require.NoError(t, json.Unmarshal([]byte(stderr), &told))
	require.Equal(t, hostile, told.Error.Message, "escaped, not changed")
}

// What comes line by line is as harmless: a feed, a stream on a terminal, the lines of listen.
func TestLines_PassNoControlCharacters(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"table", "json"} {
		status, stdout, stderr := follow(t, terminal.Session{Terminal: true}, []string{
			frame(2, hostile, hostile), "data: {\"error\":{\"code\":\"unavailable\",\"message\":" + string(sluice.AppendString(nil, hostile)) + ",\"details\":{}}}\n\n",
		}, "-o", form, "--color", "never")
		require.Zero(t, status, stderr)
		requireClean(t, form, stdout+stderr)
	}
	var out, complaints bytes.Buffer
	s := &terminal.Session{Stdout: &out, Stderr: &complaints, Watched: true, Environ: []string{"NO_COLOR=1"}}
	page := client.StreamPage{ContentType: "text/plain", Data: []byte(strings.ReplaceAll(hostile, "\n", "") + "\nsecond\xff line\n")}
	require.NoError(t, printPage(s, page))
	require.Contains(t, out.String(), "second? line\n")
	page = client.StreamPage{ContentType: "application/json", Data: []byte("[" + string(sluice.AppendString(nil, hostile)) + "]")}
	require.NoError(t, printPage(s, page))
	l := &listener{session: s, cmd: &listenCmd{}, stop: func() {}}
	require.NoError(t, l.report(new(sluice.Event), sluice.Attempt{Type: hostile, Path: hostile, EventID: hostile, Error: hostile}))
	s.Complain("%v %s %q", errors.New(hostile), sluice.Path(hostile), hostile)
	requireClean(t, "lines", out.String()+complaints.String())

	out.Reset()
	s.Watched = false
	require.NoError(t, printPage(s, client.StreamPage{ContentType: "text/plain", Data: []byte(hostile)}))
	require.Equal(t, hostile, out.String(), "a file gets the bytes as they are")
}

func TestHarmless_AllThatATerminalObeys(t *testing.T) {
	t.Parallel()
	for r := range rune(0x3000) {
		requireClean(t, fmt.Sprintf("%U", r), strings.ReplaceAll(terminal.Harmless("a"+string(r)+"b"), "\n", "\x00"))
		requireClean(t, fmt.Sprintf("%U", r), string(terminal.EscapedJSON([]byte(string(r)))))
	}
	require.Equal(t, "a?b ?", terminal.Harmless("a\xffb\t\x9b"))
	require.Equal(t, `"a\ufffd\u001b"`+"\n", string(terminal.EscapedJSON([]byte("\"a\xff\x1b\"\n"))))
	require.Equal(t, "Grüße, 日本 → ✓", terminal.Harmless("Grüße, 日本 → ✓"), "what is text stays")
	s := &terminal.Session{Stdout: io.Discard}
	require.Equal(t, []string{"a", "b; c"}, terminal.Reasons(errors.Join(errors.New("a"), errors.New("b\nc"))))
	require.NoError(t, s.Say("%d %s", 3, time.Second))
}
