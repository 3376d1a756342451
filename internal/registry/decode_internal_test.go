package registry

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// elementsOf returns what DecodeEach hands out.
func elementsOf(data []byte) ([]string, error) {
	var got []string
	err := DecodeEach(data, func(item json.RawMessage) error {
		got = append(got, string(item))
		return nil
	})
	return got, err
}

func TestDecodeEach_CutsAnArrayIntoElements(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`[]`: nil, " [ \n] ": nil, `[1]`: {"1"}, `["]",{"a":"},["}]`: {`"]"`, `{"a":"},["}`},
		`["\"]","\\",[[],[{}]],null]`: {`"\"]"`, `"\\"`, `[[],[{}]]`, `null`},
	} {
		got, err := elementsOf([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{``, ` `, `{}`, `1`, `[`, `[1`, `[1,]`, `[,1]`, `[1] 2`, `[1 2]`, `["a]`, `null`} {
		_, err := elementsOf([]byte(text))
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), text)
	}
}

func FuzzDecodeEach(f *testing.F) {
	for _, seed := range []string{`[]`, `[1,"a",{"b":[1]}]`, `[ "\\" , "\"" ]`, `[[[]]]`, `{"a":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want []json.RawMessage
		wrong := json.Unmarshal(data, &want) != nil || want == nil
		got, err := elementsOf(data)
		require.Equal(t, wrong, err != nil)
		if wrong {
			return
		}
		require.Len(t, got, len(want))
		for i := range want {
			require.JSONEq(t, string(want[i]), got[i])
		}
	})
}
