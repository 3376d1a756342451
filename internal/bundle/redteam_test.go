package bundle_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// refusedDocument returns the code of the error with which a document is refused.
func refusedDocument(t *testing.T, text []byte, trust bundle.Trust) (sluice.Code, error) {
	t.Helper()
	d, err := bundle.ReadDocument(bytes.NewReader(text))
	if err == nil {
		_, err = d.Verify(t.Context(), trust)
	}
	require.Error(t, err, "%s", text)
	return sluice.CodeOf(err), err
}

// variants calls f with each copy of a JSON value in which one thing is different: a value changed, a
// member removed or added, an element removed or repeated.
func variants(value any, f func(what string, changed any)) {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			without := maps.Clone(v)
			delete(without, name)
			f("without "+name, without)
			variants(v[name], func(what string, changed any) {
				c := maps.Clone(v)
				c[name] = changed
				f(name+": "+what, c)
			})
			more := maps.Clone(v)
			more[name+"_"] = v[name]
			f("more than "+name, more)
		}
	case []any:
		f("more elements", append(slices.Clone(v), "x"))
		for i := range v {
			f("an element less", slices.Delete(slices.Clone(v), i, i+1))
			f("an element twice", slices.Insert(slices.Clone(v), i, v[i]))
			variants(v[i], func(what string, changed any) {
				c := slices.Clone(v)
				c[i] = changed
				f(fmt.Sprintf("%d: %s", i, what), c)
			})
		}
	case string:
		f("a longer string", v+"x")
		f("an empty string", "")
		f("another case", strings.ToUpper(v)+strings.ToLower(v))
		f("null", nil)
	case json.Number:
		f("a larger number", json.Number(v.String()+"1"))
		f("a string", v.String())
		f("a fraction", json.Number(strings.ReplaceAll(v.String(), ".", "")+".25"))
	case bool:
		f("the opposite", !v)
	case nil:
		f("a string", "x")
	}
}

func parsed(t *testing.T, text []byte) (value any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&value))
	return value
}

func TestRedTeam_TamperedDocumentIsRefused(t *testing.T) {
	t.Parallel()
	for _, depth := range []sluice.Depth{sluice.DepthCatalog, sluice.DepthSummary, sluice.DepthFull} {
		h := header(40, 50)
		h.Lost = []sluice.Gap{{From: 48, To: 49}}
		text, _ := write(t, h, depth, sample(depth, 40), keyOf(1))
		tried := 0
		variants(parsed(t, text), func(what string, changed any) {
			forged, err := json.Marshal(changed)
			require.NoError(t, err)
			if same, err := jcs.Transform(forged); err == nil && bytes.Equal(same, text) {
				return
			}
			code, _ := refusedDocument(t, forged, trusting(t, 1))
			require.Contains(t, []sluice.Code{sluice.Unprocessable, sluice.BundleSignatureInvalid, sluice.UnknownKey}, code, what)
			tried++
		})
		require.Greater(t, tried, 200)
	}
}

// One bit changed anywhere is refused, or makes no difference to what was signed.
func TestRedTeam_FlippedBitIsRefused(t *testing.T) {
	t.Parallel()
	want := sample(sluice.DepthFull, 40)
	text, _ := write(t, header(40, 50), sluice.DepthFull, want, keyOf(1))
	trust := trusting(t, 1)
	for bit := 0; bit < 8*len(text); bit += 5 {
		forged := bytes.Clone(text)
		forged[bit/8] ^= 1 << (bit % 8)
		d, err := bundle.ReadDocument(bytes.NewReader(forged))
		if err != nil {
			continue
		}
		if c, err := d.Verify(t.Context(), trust); err == nil {
			require.Equal(t, want, entriesOf(t, c, 0), "bit %d", bit)
		}
	}
}

func TestRedTeam_OnlyTheKeyOfTheSourceSigns(t *testing.T) {
	t.Parallel()
	text, h := write(t, header(40, 50), sluice.DepthFull, sample(sluice.DepthFull, 40), keyOf(1))
	code, _ := refusedDocument(t, text, nil)
	require.Equal(t, sluice.UnknownKey, code)
	code, _ = refusedDocument(t, text, trusting(t, 2))
	require.Equal(t, sluice.UnknownKey, code)

	elsewhere, err := bundle.Trust{}.Add(bundle.NewJWK(publicOf(1)), "another source", exported)
	require.NoError(t, err)
	code, _ = refusedDocument(t, text, elsewhere)
	require.Equal(t, sluice.UnknownKey, code, "a key speaks for its source alone")

	code, _ = refusedDocument(t, signed(t, text, keyOf(2)), trusting(t, 1, 2))
	require.Equal(t, sluice.BundleSignatureInvalid, code, "the signature of another trusted key")

	swapped := signed(t, changed(t, text, h.KeyID, bundle.KeyID(publicOf(2))), keyOf(1))
	code, _ = refusedDocument(t, swapped, trusting(t, 1, 2))
	require.Equal(t, sluice.BundleSignatureInvalid, code, "the key id of another trusted key")

	mislabeled := trusting(t, 1)
	mislabeled[0].JWK = bundle.NewJWK(publicOf(2))
	code, _ = refusedDocument(t, signed(t, text, keyOf(2)), mislabeled)
	require.Equal(t, sluice.UnknownKey, code, "a stored key that is not that of its id")

	revoked, err := trusting(t, 1).Revoke(h.KeyID, exported)
	require.NoError(t, err)
	code, _ = refusedDocument(t, text, revoked)
	require.Equal(t, sluice.UnknownKey, code)
}

// Even the key of the source makes nothing valid that has two meanings or contradicts itself.
func TestRedTeam_SignedNonsenseIsRefused(t *testing.T) {
	t.Parallel()
	text, _ := write(t, header(40, 50), sluice.DepthFull, sample(sluice.DepthFull, 40), keyOf(1))
	entry := func(from, to string) []byte { return changed(t, text, from, to) }
	for name, tt := range map[string]struct {
		text []byte
		want string
	}{
		"algorithm none":            {entry(`"alg":"Ed25519"`, `"alg":"none"`), "refused"},
		"a weaker algorithm":        {entry(`"alg":"Ed25519"`, `"alg":"HS256"`), "refused"},
		"no algorithm":              {entry(`"alg":"Ed25519",`, ``), "refused"},
		"another format":            {entry(`"sluice.bundle/1"`, `"sluice.bundle.receipt/1"`), "format"},
		"a name in upper case":      {entry(`"heartbeat"`, `"Heartbeat"`), "unknown"},
		"an unknown member":         {entry(`"heartbeat"`, `"more":1,"heartbeat"`), "unknown"},
		"a missing member":          {entry(`"heartbeat":false,`, ``), "missing"},
		"null for a list":           {entry(`"lost":[]`, `"lost":null`), "lists"},
		"a time in another zone":    {entry(`"2026-02-19T12:00:00Z"`, `"2026-02-19T12:00:00+00:00"`), "UTC"},
		"too many entries":          {entry(`"count":5`, `"count":6`), "6"},
		"a count of everything":     {entry(`"count":5`, `"count":9007199254740991`), "do not fit"},
		"a count above 2^53":        {entry(`"count":5`, `"count":9007199254740993`), "RFC 8785"},
		"a negative count":          {entry(`"count":5`, `"count":-5`), "count"},
		"another digest":            {entry(`"entries_sha256":"`, `"entries_sha256":"0000000000000000000000000000000000000000000000000000000000000000","x":"`), "unknown"},
		"a sequence above 2^53":     {entry(`"sequence":46`, `"sequence":9007199254740993`), "RFC 8785"},
		"a fractional sequence":     {entry(`"sequence":46`, `"sequence":45.5`), "form"},
		"a sequence behind through": {entry(`"sequence":46`, `"sequence":51`), "behind"},
		"a sequence at since":       {entry(`"sequence":41`, `"sequence":40`), "out of order"},
		"the same sequence twice":   {entry(`"sequence":42`, `"sequence":41`), "out of order"},
		"NUL in an attribute":       {entry(`"case/7"`, `"case\u00007"`), "form"},
		"NUL in content":            {entry(`with`, `\u0000`), "form"},
		"NUL in the source":         {bytes.ReplaceAll(text, []byte("low.example/v1"), []byte(`low.example\u0000/v1`)), "control"},
		"a surrogate alone":         {entry(`"case/7"`, `"\ud800"`), "RFC 8785"},
		"an unknown op":             {entry(`"delete"`, `"move"`), "unknown"},
		"a deletion of the future":  {entry(`"erased_sequence":42`, `"erased_sequence":46`), "before"},
		"a deletion of nothing":     {entry(`"erased_sequence":42`, `"erased_sequence":0`), "form"},
		"a write that erases":       {entry(`"entry_id":"e-1",`, `"entry_id":"e-1","erased_sequence":1,`), "no deletion"},
		"a deletion with a type":    {entry(`"op":"delete","revision_of":"e-1","sequence":46,"topic":null`, `"op":"delete","revision_of":"e-1","sequence":46,"topic":null,"type":"x"`), "only"},
		"a file outside":            {entry(`"content":"AP8A","content_encoding":"base64"`, `"content":null,"content_file":"../x"`), "directories"},
		"base64 with a line break":  {entry(`"AP8A"`, `"AP\n8A"`), "form"},
		"text in base64":            {entry(`"AP8A"`, `"eA=="`), "form"},
		"an empty attribute":        {entry(`"case/7"`, `""`), "form"},
		"a path with a star":        {bytes.Replace(text, []byte(`"/geo/trade"`), []byte(`"/geo/*"`), 1), "pattern"},
		"two claims":                {entry(`"claims":[{"total":2.5}]`, `"claims":[1,2]`), "claims"},
		"claims that are no list":   {entry(`"claims":[{"total":2.5}]`, `"claims":{"total":2.5}`), "form"},
		"claims of broken text":     {entry(`"claims":[{"total":2.5}]`, `"claims":["{"]`), "claims"},
		"more than fits":            {entry(`"count":5`, `"count":11`), "do not fit"},
		"a deep header":             {entry(`"OSINT feed"`, strings.Repeat("[", 1001)+strings.Repeat("]", 1001)), "deep"},
		"a surrogate in the name":   {entry(`"OSINT feed"`, `"\ud800"`), "RFC 8785"},
		"a scope of another name":   {entry(`"scope":"entries"`, `"scope":"full"`), "scope"},
		"an unknown scope":          {entry(`"scope":"entries"`, `"scope":"all"`), "scope"},
		"a digest of another form":  {entry(`"entries_sha256":"`, `"entries_sha256":"A`), "digests"},
		"null for the logs":         {entry(`[{"hops":1,"incarnation":"log-0"}]`, `null`), "lists"},
		"an entry in another zone":  {entry(`"2026-02-19T11:59:00Z"`, `"2026-02-19T11:59:00+00:00"`), "RFC 3339"},
		"an entry at no time":       {entry(`"2026-02-19T11:59:00Z"`, `"today"`), "RFC 3339"},
		"a label out of range":      {entry(`"INTERNAL"`, `"COSMIC"`), "level"},
		"deep nesting":              {entry(`"claims":[{"total":2.5}]`, `"claims":[`+strings.Repeat("[", 1001)+strings.Repeat("]", 1001)+`]`), "deep"},
		"very many values":          {entry(`"claims":[{"total":2.5}]`, `"claims":[[0`+strings.Repeat(",0", 100_001)+`]]`), "values"},
		"a large header":            {entry(`"OSINT feed"`, `"`+strings.Repeat("x", 1<<20)+`"`), "larger"},
		"entries that are no list":  {slices.Concat(text[:bytes.Index(text, []byte(`"entries":`))], []byte(`"entries":{},`), text[bytes.Index(text, []byte(`"entries_sha256"`)):]), "not a JSON array"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forged := tt.text
			if !strings.Contains(name, "surrogate") && !strings.Contains(name, "2^53") {
				forged = signed(t, forged, keyOf(1))
			}
			code, err := refusedDocument(t, forged, trusting(t, 1))
			require.Contains(t, []sluice.Code{sluice.Unprocessable, sluice.TooLarge}, code)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// What parsers understand differently is refused before anything is verified.
func TestRedTeam_AmbiguousDocumentIsRefused(t *testing.T) {
	t.Parallel()
	text, _ := write(t, header(40, 50), sluice.DepthFull, sample(sluice.DepthFull, 40), keyOf(1))
	for name, forged := range map[string][]byte{
		"a member twice":              changed(t, text, `"count":5`, `"count":5,"count":5`),
		"a member twice, escaped":     changed(t, text, `"count":5`, `"count":5,"c\u006funt":5`),
		"entries twice":               changed(t, text, `"entries":[`, `"entries":[],"entries":[`),
		"a signature twice":           changed(t, text, `"signature":`, `"signature":"","signature":`),
		"a member of an entry twice":  changed(t, text, `"sequence":46`, `"sequence":46,"sequence":46`),
		"a member of the label twice": changed(t, text, `"level":`, `"level":"PUBLIC","level":`),
		"invalid UTF-8":               changed(t, text, `OSINT`, "OSINT\xff"),
		"UTF-8 of a surrogate":        changed(t, text, `OSINT`, "OSINT\xed\xa0\x80"),
		"an overlong slash":           changed(t, text, `OSINT`, "OSINT\xc0\xaf"),
		"something behind it":         append(bytes.Clone(text), '{', '}'),
		"half of it":                  text[:len(text)/2],
		"an array":                    []byte(`[]`),
		"null":                        []byte(`null`),
		"nothing":                     nil,
		"a mark at the start":         append([]byte("\ufeff"), text...),
	} {
		code, _ := refusedDocument(t, forged, trusting(t, 1))
		require.Equal(t, sluice.Unprocessable, code, name)
	}
}

func TestRedTeam_SignatureOfAnotherFormIsRefused(t *testing.T) {
	t.Parallel()
	text, _ := write(t, header(40, 50), sluice.DepthCatalog, nil, keyOf(1))
	var doc map[string]any
	require.NoError(t, json.Unmarshal(text, &doc))
	good := doc["signature"].(string)
	for _, bad := range []any{
		nil, "", 1, "none", good[:len(good)-4], good + "AAAA",
		good[:40] + "\n" + good[40:], strings.TrimRight(good, "="),
		[]string{good},
		strings.NewReplacer("+", "-", "/", "_").Replace(good) + "-", strings.Repeat("A", 86) + "==",
	} {
		doc["signature"] = bad
		forged, err := json.Marshal(doc)
		require.NoError(t, err)
		code, _ := refusedDocument(t, forged, trusting(t, 1))
		require.Equal(t, sluice.BundleSignatureInvalid, code, bad)
	}
	delete(doc, "signature")
	forged, err := json.Marshal(doc)
	require.NoError(t, err)
	code, _ := refusedDocument(t, forged, trusting(t, 1))
	require.Equal(t, sluice.BundleSignatureInvalid, code)
}
