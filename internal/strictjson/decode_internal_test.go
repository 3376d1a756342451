package strictjson

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

type inner struct {
	Name string `json:"name"`
}

// own decodes itself: what it takes is its own affair.
type own struct {
	Text string `json:"text"`
}

func (o *own) UnmarshalJSON(data []byte) error { o.Text = string(data); return nil }

// picky says itself what is wrong.
type picky struct{}

func (picky) UnmarshalJSON([]byte) error {
	return sluice.Errorf(sluice.Unprocessable, "choose another")
}

type target struct {
	Text   string         `json:"text"`
	Flag   bool           `json:"flag"`
	Int    int            `json:"int"`
	Float  float64        `json:"float"`
	List   []string       `json:"list"`
	Array  [2]int         `json:"array"`
	Map    map[string]int `json:"map"`
	Inner  inner          `json:"inner"`
	Other  *inner         `json:"other"`
	Own    own            `json:"own"`
	Err    error          `json:"err"`
	Second string         `json:"2nd"`
	Picky  picky          `json:"picky"`

	Many  []inner          `json:"many"`
	Named map[string]inner `json:"named"`

	At    time.Time         `json:"at"`
	Until *time.Time        `json:"until"`
	Steps []sluice.Duration `json:"steps"`
	Wait  *sluice.Duration  `json:"wait"`
	Short short             `json:"short"`
}

// short refuses with an error that is not one of a request.
type short []string

func (*short) UnmarshalJSON([]byte) error { return errors.New("it is too long") }

func TestDecode_ErrorSaysTheRightForm(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"text":1}`:                      `field "text": a JSON number is not expected; use a string`,
		`{"flag":1}`:                      `field "flag": a JSON number is not expected; use true or false`,
		`{"int":"x"}`:                     `field "int": a JSON string is not expected; use a number`,
		`{"float":[]}`:                    `field "float": a JSON array is not expected; use a number`,
		`{"list":{}}`:                     `field "list": a JSON object is not expected; use an array`,
		`{"array":""}`:                    `field "array": a JSON string is not expected; use an array`,
		`{"map":[]}`:                      `field "map": a JSON array is not expected; use an object`,
		`{"inner":""}`:                    `field "inner": a JSON string is not expected; use an object`,
		`{"err":true}`:                    `field "err": a JSON bool is not expected`,
		`{"2nd":1}`:                       `field "2nd": a JSON number is not expected; use a string`,
		`[]`:                              `a JSON array is not expected here; use an object`,
		`{"colour":1}`:                    `field "colour" is unknown; valid fields are text, flag, int, float, list, array, map, inner, other, own, err, 2nd, picky, many, named, at, until, steps, wait, short`,
		``:                                `the body is empty; send JSON`,
		"\n  {":                           `the body is not valid JSON: line 2, column 4: it ends too early`,
		`{"text":x}`:                      `the body is not valid JSON: line 1, column 9: invalid character 'x' looking for beginning of value`,
		"{\"text\":\"é\",\n\"é\" x}":      `the body is not valid JSON: line 2, column 5: invalid character 'x' after object key`,
		`{"at":"2027-01-01","until":"x"}`: `field "at": use an RFC 3339 time such as 2006-01-02T15:04:05Z`,
		`{"until":"tomorrow"}`:            `field "until": use an RFC 3339 time such as 2006-01-02T15:04:05Z`,
		`{"inner":{},"UNTIL":5}`:          `field "UNTIL": use an RFC 3339 time such as 2006-01-02T15:04:05Z`,
		`{"until":null,"short":[]}`:       `field "short": it is too long`,
		`{"wait":"x"}`:                    `wait: "x" is not a duration such as 10s, 5m or 72h`,
		`{"steps":["1s","x"]}`:            `steps: "x" is not a duration such as 10s, 5m or 72h`,
		`{} {}`:                           `unexpected data after the JSON value`,
		deep("inner"):                     `the JSON is nested too deep; the limit is 10,000 levels`,
	} {
		var v target
		err := Decode([]byte(body), &v)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), want)
		require.EqualError(t, err, want)
	}
}

func deep(field string) string { return `{"` + field + `":` + strings.Repeat("[", 10_001) }

// encoding/json takes a name in any case; of two it takes the last, against a merge patch.
func TestDecode_NamesHaveOneCase(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"text":"","own":{"ANY":1},"inner":{"name":"x"},"other":{"name":"y"},"map":{"A":1}}`: "",
		`null`:                                               "",
		`{"inner":null,"other":null}`:                        "",
		`{"Text":"x"}`:                                       "Text",
		`{"text":"x","TEXT":"y","INT":1}`:                    "TEXT",
		`{"inner":{"Name":"x"}}`:                             "inner.Name",
		`{"other":{"NAME":"x"}}`:                             "other.NAME",
		`{"other":{"name":"x"},"LIST":[]}`:                   "LIST",
		`{"\u0074ext":"x","te\u0058t":"y"}`:                  "teXt",
		`{"many":[{"name":"]},\""} , {"NAME":"x"}],"INT":1}`: "many.NAME",
		`{"many": [ ], "named":{"A":{"name":"{,:"},"B":{"nAme":"x"}}}`: "named.B.nAme",
	} {
		var v target
		err := DecodeAs([]byte(body), &v, sluice.UnknownFilter)
		if want == "" {
			require.NoError(t, err, body)
			continue
		}
		require.Equal(t, sluice.UnknownFilter, sluice.CodeOf(err), body)
		require.ErrorContains(t, err, `"`+want+`"`, body)
	}
}

func TestDecodeFilter_NothingIsTheEmptyOne(t *testing.T) {
	t.Parallel()
	filter, err := DecodeFilter(nil)
	require.NoError(t, err)
	require.True(t, filter.Empty())
	_, err = DecodeFilter([]byte(`{"CEL":"true"}`))
	require.Equal(t, sluice.UnknownFilter, sluice.CodeOf(err))
}

func TestDecode_ReturnsTheErrorOfAType(t *testing.T) {
	t.Parallel()
	var v target
	err := Decode([]byte(`{"picky":1}`), &v)
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err))
	require.EqualError(t, err, "picky: choose another")
	err = DecodeAs([]byte(`{"text":1}`), &v, sluice.UnknownFilter)
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
	require.ErrorContains(t, err, "use a string")
}

// greedy counts how often its hints are made.
type greedy struct {
	Path string `json:"path"`

	asked int
}

func (g *greedy) JSONHints() Hints {
	g.asked++
	return nil
}

// Hints are large, and events that are right need none.
func TestDecode_MakesHintsForErrorsOnly(t *testing.T) {
	t.Parallel()
	var g greedy
	require.NoError(t, Decode([]byte(`{"path":"/a"}`), &g))
	require.Zero(t, g.asked)
	require.Error(t, Decode([]byte(`{"paht":"/a"}`), &g))
	require.Positive(t, g.asked)
}
