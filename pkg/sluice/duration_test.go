package sluice_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestDuration_IsAGoStringInJSON(t *testing.T) {
	t.Parallel()
	for give, want := range map[string]time.Duration{`"10s"`: 10 * time.Second, `"1h30m"`: 90 * time.Minute, `"-1s"`: -time.Second, `"0s"`: 0, `null`: 7} {
		d := sluice.Duration(7)
		require.NoError(t, json.Unmarshal([]byte(give), &d), give)
		require.Equal(t, want, d.Std())
		out, err := json.Marshal(d)
		require.NoError(t, err)
		var again sluice.Duration
		require.NoError(t, json.Unmarshal(out, &again))
		require.Equal(t, d, again)
	}
	for _, give := range []string{`10`, `"10"`, `""`, `"7d"`, `{}`, `true`} {
		var d sluice.Duration
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(json.Unmarshal([]byte(give), &d)), give)
	}
}

func TestSpan_IsADurationOrDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "7d": 168 * time.Hour, "0d": 0, "36500d": 876_000 * time.Hour, "-1s": -time.Second} {
		got, err := sluice.ParseSpan(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "d", "xd", "-1d", "1.5d", "36501d", "99999d", "10"} {
		_, err := sluice.ParseSpan(text)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), text)
	}
	var d sluice.Duration
	require.EqualError(t, json.Unmarshal([]byte("10"), &d), `10 is not a duration; write a string such as "10s"`)
}

func TestCodeOf_TakesTheFirstInTheChain(t *testing.T) {
	t.Parallel()
	require.Equal(t, sluice.Code(""), sluice.CodeOf(nil))
	require.Equal(t, sluice.Internal, sluice.CodeOf(errors.New("disk")))
	err := fmt.Errorf("put: %w", sluice.Errorf(sluice.Conflict, "%s was changed", "x").With("key", "x"))
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
	require.EqualError(t, err, "put: x was changed")
	e, ok := errors.AsType[*sluice.Error](err)
	require.True(t, ok)
	require.Equal(t, map[string]any{"key": "x"}, e.Details)
}
