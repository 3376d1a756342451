package jsonarray_test

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/jsonarray"
)

func TestSplit_ElementsAreThoseOfJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`[]`, " [ ] ", `[1]`, "\n[ 1 ,\t2 , [3, [4]],\r\n{\"a\":[1,2],\"b\":\"]},\"} ]", `["a\"]","\\",""]`, `[null,true,-1.5e3]`, `[[[]],{}]`,
	} {
		var want []json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(text), &want))
		got, err := jsonarray.Split([]byte(text), 10)
		require.NoError(t, err, text)
		require.Len(t, got, len(want), text)
		for i := range want {
			require.Equal(t, string(want[i]), string(got[i]), text)
		}
	}
}

func TestSplit_RefusesOtherValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		"": jsonarray.ErrNotJSON, " ": jsonarray.ErrNotJSON, "[": jsonarray.ErrNotJSON, "[1,]": jsonarray.ErrNotJSON, "[1]2": jsonarray.ErrNotJSON, `["`: jsonarray.ErrNotJSON,
		"{}": jsonarray.ErrNotArray, `"[]"`: jsonarray.ErrNotArray, "null": jsonarray.ErrNotArray,
		"[1,2,3,4]": jsonarray.ErrTooMany,
	} {
		_, err := jsonarray.Split([]byte(text), 3)
		require.ErrorIs(t, err, want, text)
	}
	three, err := jsonarray.Split([]byte("[1,2,3]"), 3)
	require.NoError(t, err)
	require.Len(t, three, 3)
}

func TestDecode_EachElement(t *testing.T) {
	t.Parallel()
	got, err := jsonarray.Decode[string]([]byte(`["a","b"]`), 2)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, got)
	got, err = jsonarray.Decode[string]([]byte(`null`), 2)
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = jsonarray.Decode[string]([]byte(`["a",1]`), 2)
	var wrong *json.UnmarshalTypeError
	require.ErrorAs(t, err, &wrong)
}

// An array that is too long costs nothing in proportion to its length.
func TestDecode_LongArrayCostsNoMemory(t *testing.T) { //nolint:paralleltest // it measures what the process allocates
	body := []byte("[" + strings.Repeat("{},", 1_000_000) + "{}]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := jsonarray.Decode[map[string]string](body, 1000)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, jsonarray.ErrTooMany)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(body)/10))
}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{`[]`, `[1, "a\"", {"b":[2]}]`, "[[],[]]", "{}", "[1,]", "[\"\\u005d\"]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want []json.RawMessage
		err := json.Unmarshal(data, &want)
		got, failed := jsonarray.Split(data, 100)
		if err != nil || bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
			require.Error(t, failed)
			return
		}
		if len(want) > 100 {
			require.ErrorIs(t, failed, jsonarray.ErrTooMany)
			return
		}
		require.NoError(t, failed)
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, string(want[i]), string(got[i]))
		}
	})
}

func TestCut_LeavesNullInItsPlace(t *testing.T) {
	t.Parallel()
	for object, want := range map[string][2]string{
		`{"a":1}`:                         {"1", `{"a":null}`},
		"[\"a\",1]":                       {"", "[\"a\",1]"},
		`{"b":"a","c":{"a":1},"d":["a"]}`: {"", `{"b":"a","c":{"a":1},"d":["a"]}`},
		`{"\u0061":1}`:                    {"", `{"\u0061":1}`},
		" {\n\"b\" : [ {\"a\":2} ] ,\t\"a\" :\r{\"x\":\"}\\\"\"} ,\"c\":3} ": {`{"x":"}\""}`, " {\n\"b\" : [ {\"a\":2} ] ,\t\"a\" :\rnull ,\"c\":3} "},
		`{"":0,"a": "\\" }`: {`"\\"`, `{"":0,"a": null }`},
	} {
		value, rest := jsonarray.Cut([]byte(object), "a")
		require.Equal(t, want, [2]string{string(value), string(rest)})
	}
}

func FuzzCut(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, `{"b":{"a":[]},"a":"\""}`, `[]`, `{"a":1,"a":2}`, " { \"b\" : 1 , \"a\" : [ 1 ] } "} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want map[string]json.RawMessage
		if !json.Valid(data) || bytes.Count(data, []byte(`"a"`)) > 1 || bytes.Contains(data, []byte(`\u0061`)) {
			return
		}
		value, rest := jsonarray.Cut(data, "a")
		if json.Unmarshal(data, &want) != nil {
			require.Equal(t, string(data), string(rest))
			return
		}
		require.Equal(t, string(want["a"]), string(value))
		var left map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(rest, &left))
		require.Len(t, left, len(want))
	})
}
