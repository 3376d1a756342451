package sluice_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestReasons_ListsEveryDeclaredOne(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "attempt.go", nil, 0)
	require.NoError(t, err)
	var declared []sluice.Reason
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Reason" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			declared = append(declared, sluice.Reason(text))
		}
		return true
	})
	require.Equal(t, declared, sluice.Reasons())
}

func TestDeadLetter_JSONKeepsTheEventByteForByte(t *testing.T) {
	t.Parallel()
	d := sluice.DeadLetter{Subscription: "s", EventID: "e", Reason: sluice.Exhausted, Event: &sluice.Event{ID: "e", Path: "/a", Data: []byte(`{ "a": "<&>" }`)}}
	data, err := d.AppendJSON([]byte("["))
	require.NoError(t, err)
	require.Contains(t, string(data), `"data":{ "a": "<&>" }}}`)
	require.Equal(t, 1, strings.Count(string(data), `"event":`))
	var back sluice.DeadLetter
	require.NoError(t, json.Unmarshal(data[1:], &back))
	require.Equal(t, d.Event.Data, back.Event.Data)
	require.True(t, back.Redrivable())

	d.Event = nil
	data, err = d.AppendJSON(nil)
	require.NoError(t, err)
	require.NotContains(t, string(data), "event\":")
	require.False(t, d.Redrivable())
	d.At = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	data, err = d.AppendJSON([]byte("["))
	require.Error(t, err, "a time that JSON cannot hold")
	require.Equal(t, "[", string(data))
	for reason, want := range map[sluice.Reason]bool{sluice.Expired: false, sluice.Malformed: false, sluice.FilterError: true, sluice.EndpointGone: true} {
		d := sluice.DeadLetter{Reason: reason, Event: &sluice.Event{}}
		require.Equal(t, want, d.Redrivable(), reason)
	}
}

func TestFailure_FollowsFromTheStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]sluice.FailureClass{
		0: sluice.FailOther, 101: sluice.FailStatus, 302: sluice.FailRedirect, 400: sluice.FailStatus, 401: sluice.FailAuth, 403: sluice.FailAuth, 404: sluice.FailStatus,
		410: sluice.FailStatus, 429: sluice.FailThrottled, 500: sluice.FailServer, 599: sluice.FailServer,
	} {
		require.Equal(t, want, (&sluice.Attempt{Outcome: sluice.Failed, Status: status}).Failure(), status)
	}
	require.Empty(t, (&sluice.Attempt{Outcome: sluice.Delivered, Status: 204}).Failure())
	require.Equal(t, sluice.FailUnsent, (&sluice.Attempt{Outcome: sluice.Refused}).Failure())
	require.Equal(t, sluice.FailTimeout, (&sluice.Attempt{Outcome: sluice.Failed, Class: sluice.FailTimeout, Status: 200}).Failure())
}
