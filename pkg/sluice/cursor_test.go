package sluice_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// C11: one cursor language.
func TestCursor_HasFiveForms(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 5, 1, 12, 0, 0, 5e8, time.UTC)
	for give, want := range map[string]sluice.Cursor{
		"-1":                                   {Kind: sluice.CursorBeginning},
		"now":                                  {Kind: sluice.CursorNow},
		"0":                                    {Kind: sluice.CursorSeq},
		"42":                                   {Kind: sluice.CursorSeq, Seq: 42},
		"2026-05-01T12:00:00.5Z":               {Kind: sluice.CursorTime, Time: noon},
		"2026-05-01T14:00:00.5+02:00":          {Kind: sluice.CursorTime, Time: noon},
		"order-17":                             {Kind: sluice.CursorEvent, ID: "order-17"},
		"+5":                                   {Kind: sluice.CursorEvent, ID: "+5"},
		"-2":                                   {Kind: sluice.CursorEvent, ID: "-2"},
		"99999999999999999999":                 {Kind: sluice.CursorEvent, ID: "99999999999999999999"},
		"0190f5fe-7c00-7a00-8000-000000000000": {Kind: sluice.CursorEvent, ID: "0190f5fe-7c00-7a00-8000-000000000000"},
	} {
		got, err := sluice.ParseCursor(give)
		require.NoError(t, err, give)
		require.Equal(t, want, got, give)
		again, err := sluice.ParseCursor(got.String())
		require.NoError(t, err, give)
		require.Equal(t, want, again, give)
	}
	for _, give := range []string{"", "a\nb", "\xff", strings.Repeat("a", 257)} {
		_, err := sluice.ParseCursor(give)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), give)
	}
}

// S1-20.
func TestCursor_ZeroPaddedOffsetIsASequence(t *testing.T) {
	t.Parallel()
	got, err := sluice.ParseCursor("00000000000000000042")
	require.NoError(t, err)
	require.Equal(t, sluice.Cursor{Kind: sluice.CursorSeq, Seq: 42}, got)
}

// C41.
func TestStart_ResolvesToAPlaceInTheLog(t *testing.T) {
	t.Parallel()
	for give, want := range map[string]sluice.StartAt{
		"new":                  {Kind: sluice.StartSeq, Seq: 18},
		"all":                  {Kind: sluice.StartSeq, Seq: 1},
		"0":                    {Kind: sluice.StartSeq, Seq: 1},
		"7":                    {Kind: sluice.StartSeq, Seq: 7},
		"last_per_path":        {Kind: sluice.StartLastPerPath, Seq: 18},
		"2026-05-01T12:00:00Z": {Kind: sluice.StartTime, Time: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)},
	} {
		got, err := sluice.ParseStart(give, 18)
		require.NoError(t, err, give)
		require.Equal(t, want, got, give)
	}
	got, err := sluice.ParseStart("new", 0)
	require.NoError(t, err)
	require.Equal(t, uint64(1), got.Seq)
	for _, give := range []string{"", "-1", "now", "yesterday", "1.5", "+1"} {
		_, err := sluice.ParseStart(give, 18)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), give)
	}
}

func TestAgo_IsATimeWhereTextIsADuration(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 2, 12, 0, 0, 0, time.FixedZone("x", 3600))
	for text, want := range map[string]string{
		"10m": "2026-05-02T10:50:00Z", "1d": "2026-05-01T11:00:00Z", "1ns": "2026-05-02T10:59:59.999999999Z",
		"": "", "0": "0", "0s": "0s", "-10m": "-10m", "10": "10", "-1": "-1", "now": "now", "new": "new", "all": "all", "10 m": "10 m", "99999d": "99999d",
		"2026-05-01T00:00:00Z": "2026-05-01T00:00:00Z", "order-10m": "order-10m",
	} {
		require.Equal(t, want, sluice.Ago(text, now), text)
	}
}

// What is written again has a year of four digits.
func TestTime_IsReadInUTC(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0000-01-01T00:00:00Z": "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.5Z": "9999-12-31T23:59:59.5Z", "2026-05-01T02:00:00+02:00": "2026-05-01T00:00:00Z",
		"0000-01-01T00:00:00+01:00": "", "9999-12-31T23:59:59-01:00": "", "2026-05-01": "", "": "",
	} {
		at, err := sluice.ParseTime(text)
		if want == "" {
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, at.Format(time.RFC3339Nano))
	}
	require.NoError(t, sluice.CheckEventID(strings.Repeat("a", 256)))
}
