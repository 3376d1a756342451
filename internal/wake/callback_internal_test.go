package wake

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// number reads an offset of the form "@7".
func number(text string) (uint64, error) {
	if !strings.HasPrefix(text, "@") {
		return 0, errors.New("no offset")
	}
	return uint64(len(text)), nil
}

func TestParseCallback_TakesTheFormsOfS1(t *testing.T) { // S1-71…77
	t.Parallel()
	got, err := ParseCallback([]byte(`{"epoch":3,"wake_id":"w3","done":true,"subscribe":["/b","/c"],"unsubscribe":["/d"],"later":{},
		"acks":[{"path":"/a","offset":"@234"},{"path":"/b","offset":"-1"},{"path":"/c","offset":"seven"},{"path":"no path","offset":"@"}]}`), number)
	require.NoError(t, err)
	require.Equal(t, Callback{
		Epoch: 3, WakeID: "w3", Done: true, Subscribe: []sluice.Path{"/b", "/c"}, Unsubscribe: []sluice.Path{"/d"},
		Acks: []Position{{Path: "/a", Acked: 4}, {Path: "/b"}, {Path: "/c", Acked: beyond}, {Path: "no path", Acked: 1}},
	}, got)
	require.Equal(t, []sluice.Path{"/b", "/c", "/a", "/b", "/c"}, got.names(), "what is subscribed to or acknowledged, and is a path")

	bare, err := ParseCallback([]byte(`{"epoch":0,"acks":null}`), number)
	require.NoError(t, err)
	require.Equal(t, Callback{}, bare)
	require.Empty(t, bare.names())
}

func TestParseCallback_NamesTheFault(t *testing.T) { // S1-85
	t.Parallel()
	many := strings.TrimSuffix(strings.Repeat(`"/a",`, MaxStreams), ",")
	_, err := ParseCallback([]byte(`{"epoch":1,"subscribe":[`+many+`]}`), number)
	require.NoError(t, err)
	for body, says := range map[string]string{
		`{}`:                              "epoch is missing",
		`{"epoch":null}`:                  "epoch is missing",
		`{`:                               "the body is not a callback: it is not valid JSON",
		`[]`:                              "the body is not a callback: a JSON array is of an unexpected type",
		`{"epoch":"3"}`:                   "the body is not a callback: the field epoch cannot be a JSON string",
		`{"epoch":1,"done":"yes"}`:        "the body is not a callback: the field done cannot be a JSON string",
		`{"epoch":1,"acks":{}}`:           "the body is not a callback: acks, subscribe and unsubscribe must be arrays",
		`{"epoch":1,"subscribe":["a"]}`:   `subscribe: path "a" does not start with /; write "/a"`,
		`{"epoch":1,"unsubscribe":["/"]}`: "unsubscribe: path / has no segments",
		`{"epoch":1,"acks":[` + strings.Repeat("{},", MaxStreams) + `{}]}`: "the body is not a callback: it names more than 1000 streams for one purpose",
	} {
		got, err := ParseCallback([]byte(body), number)
		require.Equal(t, sluice.WakeInvalid, sluice.CodeOf(err), says)
		require.EqualError(t, err, says)
		require.Empty(t, got.Acks)
	}
}
