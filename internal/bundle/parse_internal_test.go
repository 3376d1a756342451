package bundle

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const plainEntry = `{"claims":[],"content":"x","content_type":"t","entry_id":"i","extensions":{"a":"1","b":""},"op":"write","sequence":19,"source":"s","topic":"/p","type":"k"}`

// Only the form that is written is read: each of these differs in one place, and what follows it is good.
func TestParse_AcceptsOneFormOnly(t *testing.T) {
	t.Parallel()
	accepted := func(from, to string) bool {
		text := strings.Replace(plainEntry, from, to, 1)
		w, err := parseEntry([]byte(text), sluice.DepthFull)
		consumed, same := consumeEntry([]byte(text), sluice.DepthFull)
		require.Equal(t, err == nil, same == nil, "%v, %v", err, same)
		if err == nil {
			require.Equal(t, text, string(w.append(nil)))
			require.Equal(t, w, consumed)
		}
		return err == nil
	}
	for _, good := range [][2]string{
		{"", ""},
		{`"x"`, `"\"\\\b\f\n\r\t\u0001\u001f\u000b"`},
		{`"x"`, "\"\x7f\u20ac/\""},
		{`"x"`, `"/wAA","content_encoding":"base64"`},
		{`"x"`, `null`},
		{`"x"`, `null,"content_file":"f"`},
		{`"t"`, `null`},
		{`:[],`, `:[{"a":[1,"\u0000"]}],`},
		{`"i"`, `"\u0001"`},
		{`"b":""`, `"b":"","c":"x"`},
		{`:19,`, `:9007199254740991,`},
		{`"op":"write"`, `"op":"revise","revision_of":"x"`},
	} {
		require.True(t, accepted(good[0], good[1]), good)
	}
	for _, bad := range [][2]string{
		{plainEntry, ""},
		{plainEntry, "{"},
		{`"k"}`, `"k"`},
		{`"k"}`, `"k"} `},
		{`"k"}`, `"k"}}`},
		{`{"claims"`, ` {"claims"`},
		{`"x"`, `"\u000a"`},
		{`"x"`, `"\u000B"`},
		{`"x"`, `"\u0041"`},
		{`"x"`, `"\u0022"`},
		{`"x"`, `"\u0000"`},
		{`"x"`, `"\u20ac"`},
		{`"x"`, `"\u+00b"`},
		{`"x"`, `"\u000"`},
		{`"x"`, `"\/"`},
		{`"x"`, `"\`},
		{`"x"`, `"\u00`},
		{`"x"`, "\"\x01\""},
		{`"x"`, "\"\xff\""},
		{`"x"`, `""`},
		{`"x"`, `x`},
		{`"x"`, `"","content_encoding":"base64"`},
		{`"x"`, `"eA==","content_encoding":"base64"`},
		{`"x"`, `"/wAB=","content_encoding":"base64"`},
		{`"x"`, `"/wB=","content_encoding":"base64"`},
		{`"x"`, `"/wAA\n","content_encoding":"base64"`},
		{`"x"`, `"/wAA\r","content_encoding":"base64"`},
		{`"x"`, `"\n/wAA","content_encoding":"base64"`},
		{`"x"`, `"\r/wAA","content_encoding":"base64"`},
		{`"x"`, `"/wAA","content_encoding":"hex"`},
		{`"x"`, `null,"content_file":""`},
		{`"x"`, `null,"content_file":null`},
		{`"t"`, `""`},
		{`"t"`, `1`},
		{`:[],`, `:[ ],` + `]`},
		{`:[],`, `:null,`},
		{`:[],`, `:{},`},
		{`:[],`, `:"",`},
		{`:[],`, `:,`},
		{`:[],`, `:[{"a":1,"a":1}],`},
		{`:[],`, `:[1e400],`},
		{`:[],`, `:[9007199254740993],`},
		{`:[],`, `:[-9007199254740993],`},
		{`:[],`, `:[tru],`},
		{`"i"`, `"\u0000"`},
		{`"i"`, `"\u0000a"`},
		{`"i"`, `"a\u0000"`},
		{`"i"`, `""`},
		{`"i"`, `"i`},
		{`"a":"1"`, `"c":"1"`},
		{`"a":"1"`, `"b":"1"`},
		{`"a":"1"`, `"A":"1"`},
		{`"a":"1"`, `"":"1"`},
		{`"a":"1"`, `"a" :"1"`},
		{`"a":"1"`, `"a":"\u0000"`},
		{`"b":""`, `"revisionof":"x"`},
		{`{"a":"1","b":""}`, `{}`},
		{`{"a":"1","b":""}`, `{"a":"1",}`},
		{`{"a":"1","b":""}`, `{"a":"1"`},
		{`:19,`, `:019,`},
		{`:19,`, `:0,`},
		{`:19,`, `:,`},
		{`:19,`, `:-19,`},
		{`:19,`, `:1.9,`},
		{`:19,`, `:9007199254740992,`},
		{`:19,`, `:18446744073709551635,`},
		{`"s"`, `""`},
		{`"s"`, `null`},
		{`"/p"`, `""`},
		{`"/p"`, `null`},
		{`,"type":"k"`, ``},
		{`"op":"write"`, `"op":"revise"`},
		{`"op":"write"`, `"op":"write","revision_of":"x"`},
		{`"op":"write"`, `"op":"Write"`},
		{`"op":"write"`, `"op":"delete"`},
	} {
		require.False(t, accepted(bad[0], bad[1]), bad)
	}
}

// A scope has no more than it says, and a deletion names the erased event alone.
func TestParse_EntryHasNoMoreThanItsScope(t *testing.T) {
	t.Parallel()
	const rest = `,"content_type":null,"entry_id":"i","op":"write","sequence":1,"topic":"/p","type":"k"}`
	for text, least := range map[string]sluice.Depth{
		`{"claims":[],"content":null`:                                       sluice.DepthCatalog,
		`{"claims":[1],"content":null`:                                      sluice.DepthSummary,
		`{"claims":[],"content":"x"`:                                        sluice.DepthFull,
		`{"claims":[],"content":"/wAA","content_encoding":"base64"`:         sluice.DepthFull,
		`{"claims":[],"content":null,"content_file":"` + "data/x.txt" + `"`: sluice.DepthFull,
	} {
		allowed := false
		for _, depth := range []sluice.Depth{sluice.DepthCatalog, sluice.DepthSummary, sluice.DepthFull} {
			allowed = allowed || depth == least
			_, err := parseEntry([]byte(text+rest), depth)
			require.Equal(t, allowed, err == nil, "%s at %s: %v", text, depth, err)
		}
	}
	const deletion = `{"claims":[],"content":null,"content_type":null,"entry_id":"i","erased_sequence":1,"op":"delete","revision_of":"x","sequence":2,"topic":null}`
	_, err := parseEntry([]byte(deletion), sluice.DepthFull)
	require.NoError(t, err)
	for _, change := range [][2]string{
		{`"claims":[]`, `"claims":[1]`},
		{`"content":null`, `"content":"x"`},
		{`"content_type":null`, `"content_type":"x"`},
		{`,"entry_id"`, `,"dataschema":"x","entry_id"`},
		{`,"op"`, `,"extensions":{"a":"1"},"op"`},
		{`,"topic"`, `,"source":"x","topic"`},
		{`,"topic"`, `,"subject":"x","topic"`},
		{`,"topic"`, `,"time":"x","topic"`},
		{`"topic":null`, `"topic":"/x"`},
		{`null}`, `null,"type":"x"}`},
	} {
		_, err := parseEntry([]byte(strings.Replace(deletion, change[0], change[1], 1)), sluice.DepthFull)
		require.ErrorContains(t, err, "a deletion has only", change)
	}
}

// Members are found in any layout of JSON.
func TestSplit_FindsTheMembers(t *testing.T) {
	t.Parallel()
	members, err := split([]byte(" \r\n\t{ \"a\" : {\"x\":[1,\"}\\\"\"]} ,\"b\":[ ] , \"c\":12 ,\"d\":\"}\" , \"e\":true}\n"))
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"a": []byte(`{"x":[1,"}\""]}`), "b": []byte(`[ ]`), "c": []byte(`12`), "d": []byte(`"}"`), "e": []byte(`true`)}, members)
	text, at := assemble(members, "d")
	require.True(t, strings.HasPrefix(string(text), `{"a":{"x":[1,"}\""]},"b":[ ],"c":12,"d":"}","e":true}`))
	require.Equal(t, `"}"`, string(text[at:at+3]))
	for _, bad := range []string{``, `[]`, `1`, `{`, `{"a":1,"a":2}`, `{"\u0061":1}`, `{"a":1}}`} {
		_, err := split([]byte(bad))
		require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err), bad)
	}
	members, err = split([]byte(`{}`))
	require.NoError(t, err)
	require.Empty(t, members)
}
