package appointment

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// What becomes of times that do not exist, and of those that are there twice, when the clock on the wall is set.
func TestCron_SkippedAndRepeatedWallTimes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, cron, zone, after string
		want                    []string // in UTC
	}{
		{"every day, in winter and summer", "30 8 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", []string{"2026-03-28T07:30:00Z", "2026-03-29T06:30:00Z", "2026-03-30T06:30:00Z"}},
		{"a time that does not exist", "30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", []string{"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"some that do not exist are one", "15,45 2 * * *", "Europe/Berlin", "2026-03-28T02:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:15:00Z", "2026-03-30T00:45:00Z"}},
		{"a time that is there twice", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"after the second of two", "30 2 * * *", "Europe/Berlin", "2026-10-25T01:30:00Z", []string{"2026-10-26T01:30:00Z"}},
		{"every half hour, when there is an hour less", "*/30 * * * *", "Europe/Berlin", "2026-03-29T00:20:00Z", []string{"2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"}},
		{"every half hour, when there is an hour more", "*/30 * * * *", "Europe/Berlin", "2026-10-25T00:20:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"}},
		{"every hour, when there is an hour more", "30 * * * *", "Europe/Berlin", "2026-10-24T23:40:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"}},
		{"every minute of an hour that does not exist", "*/30 2 * * *", "Europe/Berlin", "2026-03-28T01:00:00Z", []string{"2026-03-28T01:30:00Z", "2026-03-30T00:00:00Z"}},
		{"every minute of an hour that is there twice", "*/30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:00:00Z"}},
		{"one that does not exist comes to the instant of another", "0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z", "2026-03-30T01:00:00Z"}},
		{"half an hour less", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", []string{"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"}},
		{"midnight does not exist", "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", []string{"2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}},
		{"a day does not exist", "0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", []string{"2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"}},
		{"on weekdays", "0 9 * * MON-FRI", "", "2026-01-02T10:00:00Z", []string{"2026-01-05T09:00:00Z", "2026-01-06T09:00:00Z"}},
		{"a day of the month or of the week", "0 0 13 * 5", "UTC", "2026-01-01T00:00:00Z", []string{"2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z"}},
		{"on a leap day", "0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
	} {
		is, err := timesOf(c.cron, c.zone)
		require.NoError(t, err, c.name)
		at, err := time.Parse(time.RFC3339, c.after)
		require.NoError(t, err)
		for i, want := range c.want {
			var ok bool
			at, ok = is.after(at)
			require.True(t, ok, c.name)
			require.Equal(t, want, at.UTC().Format(time.RFC3339), "%s: %d", c.name, i)
		}
	}
	for _, never := range []string{"0 0 30 2 *", "*/5 * 30 2 *"} {
		is, err := timesOf(never, "Europe/Berlin")
		require.NoError(t, err)
		_, ok := is.after(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		require.False(t, ok, never)
	}
}

func TestCron_RefusesUnknownSyntax(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"", ""},
		{"* * * *", ""},
		{"* * * * * *", ""},
		{"60 * * * *", ""},
		{"@daily", ""},
		{"@every 1h", ""},
		{"TZ=UTC 0 * * * *", ""},
		{"CRON_TZ=UTC * * * *", ""},
		{"TZ= * * * * *", ""},
		{"a b c d e", ""},
		{"*/0 * * * *", ""},
		{"0 0 * * *", "Mars/Olympus"},
		{"0 0 * * *", "../etc/passwd"},
	} {
		_, err := timesOf(c[0], c[1])
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), c)
	}
}

// Of a schedule that names an hour and a minute there is one time for every day of a year, wherever; of one that takes every hour, one every hour.
func TestCron_FiresOncePerDayOrHourInEveryZone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca", "Pacific/Chatham", "Antarctica/Troll"}).Draw(t, "zone")
		minute, hour := rapid.IntRange(0, 59).Draw(t, "minute"), rapid.IntRange(0, 23).Draw(t, "hour")
		location, err := time.LoadLocation(zone)
		require.NoError(t, err)
		year := rapid.IntRange(1990, 2030).Draw(t, "year")
		month := time.Month(rapid.IntRange(1, 12).Draw(t, "month"))
		begin, end := time.Date(year, month, 15, 12, 0, 0, 0, location).Add(-1), time.Date(year, month+3, 15, 12, 0, 0, 0, location) // no zone changes its clock at noon
		days := int(end.Sub(begin).Round(24*time.Hour) / (24 * time.Hour))
		require.Equal(t, days, count(t, fmt.Sprintf("%d %d * * *", minute, hour), zone, begin, end))
		end = begin.AddDate(0, 0, rapid.IntRange(1, 40).Draw(t, "days"))
		require.InDelta(t, end.Sub(begin).Hours(), count(t, fmt.Sprintf("%d */1 * * *", minute), zone, begin, end), 2)
	})
}

// count returns how often an expression is due, each time later than the time before.
func count(t *rapid.T, expression, zone string, begin, end time.Time) (n int) {
	is, err := timesOf(expression, zone)
	require.NoError(t, err)
	for at := begin; ; n++ {
		next, ok := is.after(at)
		require.True(t, ok && next.After(at), "%s behind %s", next, at)
		if at = next; !at.Before(end) {
			return n
		}
	}
}
